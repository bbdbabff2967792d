//go:build linux

package mlx5

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// bells returns the offsets in a page where a queue pair rings its first two doorbells.
func (q *qp) bells(t *testing.T, page []byte) (at [2]int) {
	t.Helper()
	for i := range at {
		clear(page)
		q.send(t, provider.WR{Opcode: provider.WRSend})
		at[i] = slices.IndexFunc(page, func(b byte) bool { return b != 0 }) &^ 7
	}
	return at
}

// TestOpen checks the request, and which features are missing on old kernels.
func TestOpen(t *testing.T) {
	c := newContext(t)
	in, out := c.Data()
	if len(in) != 32 || len(out) != 72 {
		t.Errorf("%d bytes in and %d out", len(in), len(out))
	}
	if arena.PageSize == 4096 {
		wantBytes := append([]byte{16, 0, 0, 0, 4, 0, 0, 0}, make([]byte, 24)...)
		wantBytes[16], wantBytes[24] = 1, 3
		if !slices.Equal(in, wantBytes) {
			t.Errorf("% x", in)
		}
	}
	for f := range provider.Features {
		if why := c.Lacks(f); (why != "") != (f == provider.FeatureResizeSRQ) {
			t.Errorf("%v: %q", f, why)
		}
	}
	c.caps = abi.QueryDeviceResp{}
	for _, f := range []provider.Feature{provider.FeatureAtomics, provider.FeatureMW, provider.FeatureSRQ} {
		if c.Lacks(f) == "" {
			t.Errorf("%v of a device without any", f)
		}
	}
}

// TestBadAnswers checks that invalid answers of the kernel are refused and leave nothing behind.
func TestBadAnswers(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*fake, *abi.Mlx5AllocUcontextResp)
		want   error
	}{
		"completions of version 2": {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.CqeVersion = 2 }, ucs.ErrUnsupported},
		"no answer":                {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { *a = abi.Mlx5AllocUcontextResp{} }, ucs.ErrUnsupported},
		"no registers in a page":   {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.NumUarsPerPage = 0 }, ucs.ErrIO},
		"small UARs":               {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.LogUarSize = 11 }, ucs.ErrIO},
		"many UARs":                {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.NumUarsPerPage = 1 << 20 }, ucs.ErrIO},
		"large registers":          {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.BfRegSize = 2048 }, ucs.ErrIO},
		"odd registers":            {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.BfRegSize = 500 }, ucs.ErrIO},
		"huge registers":           {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.BfRegSize = 1 << 31 }, ucs.ErrIO},
		"many registers":           {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.TotBfregs = 1 << 31 }, ucs.ErrIO},
		"one register":             {func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.TotBfregs = 1 }, ucs.ErrIO},
		"no mapping":               {func(f *fake, _ *abi.Mlx5AllocUcontextResp) { f.noMap = syscall.ENOMEM }, ucs.ErrNoMemory},
		"no mapping of an object":  {func(f *fake, a *abi.Mlx5AllocUcontextResp) { f.noMap, a.TotBfregs = syscall.ENOMEM, 0 }, ucs.ErrNoMemory},
		"a short page":             {func(f *fake, a *abi.Mlx5AllocUcontextResp) { f.length, a.TotBfregs = 100, 0 }, ucs.ErrIO},
		"a long page":              {func(f *fake, a *abi.Mlx5AllocUcontextResp) { f.length, a.TotBfregs = 1<<31, 0 }, ucs.ErrIO},
	} {
		f, a := newFake(t), answer()
		c.change(f, &a)
		ctx, err := f.attach(a)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		ctx.Detach()
		if len(f.mapped) != 0 || f.objects != 0 {
			t.Errorf("%s: %d pages and %d objects left", what, len(f.mapped), f.objects)
		}
	}
}

// TestStatic checks that queue pairs ring the registers that the kernel names.
func TestStatic(t *testing.T) {
	for _, noNC := range []bool{false, true} {
		c := newContext(t, func(f *fake, _ *abi.Mlx5AllocUcontextResp) { f.noNC = noNC })
		f := c.dev.File.(*fake)
		command := uint64(abi.MLX5_IB_MMAP_NC_PAGE)
		if noNC {
			command = abi.MLX5_IB_MMAP_REGULAR_PAGE
		}
		if len(f.offsets) != 8 || f.offsets[7] != (command<<8|7)*uint64(arena.PageSize) {
			t.Errorf("mapped at %#x", f.offsets)
		}
		cq := newCQ(t, c, 10)
		if cq.request.Flags != 0 || cq.request.CqeSize != 64 {
			t.Errorf("%+v", cq.request)
		}
		for number, want := range map[uint32][2]int{0: {0x800, 0x800}, 1: {0xa00, 0xb00}, 4: {0x1800, 0x1900}, 5: {0x1a00, 0x1b00}, 29: {0x7a00, 0x7b00}} {
			o, err := c.NewQP(rc(cq, 4, 1))
			if err != nil {
				t.Fatal(err)
			}
			q := o.(*qp)
			if q.request.Flags != 0 || q.request.BfregIndex != 0 {
				t.Errorf("%+v", q.request)
			}
			q.answer.BfregIndex = number
			if err := q.Attach(&provider.QPMade{QPN: 1}); err != nil {
				t.Fatal(err)
			}
			page := int(number / 4)
			at := q.bells(t, c.pages.mapped[page])
			if at[0] += page << 12; at[0] != want[0] || at[1]+page<<12 != want[1] {
				t.Errorf("register %d: %#x", number, at)
			}
			q.Detach()
		}
		for _, number := range []uint32{2, 3, 7, 32, 0xffffffff} {
			o, _ := c.NewQP(rc(cq, 4, 1))
			o.(*qp).answer.BfregIndex = number
			if err := o.Attach(&provider.QPMade{}); !errors.Is(err, ucs.ErrIO) {
				t.Errorf("register %d: %v", number, err)
			}
			o.Detach()
		}
	}
	// Pages of 64 KiB have 16 UARs; old kernels have one UAR in each page of any size.
	large := newContext(t, func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.LogUarSize, a.NumUarsPerPage, a.TotBfregs = 0, 0, 6 })
	if len(large.pages.mapped) != 3 {
		t.Errorf("%d pages of an old kernel", len(large.pages.mapped))
	}
}

// TestDynamic checks that doorbell pages are allocated, and that the kernel learns which one a
// queue uses.
func TestDynamic(t *testing.T) {
	for _, blue := range []string{"", "0", "1"} {
		t.Setenv(blueFlameEnv, blue)
		c := newContext(t, dynamic)
		cq := newCQ(t, c, 10)
		if cq.request.Flags != abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX || cq.request.UarPageIndex != 0x101 {
			t.Errorf("%+v", cq.request)
		}
		var qps []*qp
		users := map[*register]int{}
		for i := range 30 {
			q := newQPN(t, rc(cq, 4, 1), provider.QPN(i))
			if q.request.Flags != abi.MLX5_QP_FLAG_UAR_PAGE_INDEX || q.request.BfregIndex != q.reg.page {
				t.Errorf("%+v", q.request)
			}
			users[q.reg]++
			qps = append(qps, q)
		}
		f := c.dev.File.(*fake)
		if blue != "1" {
			if len(users) != 1 || len(f.mapped) != 1 || qps[0].reg.page != 0x101 {
				t.Errorf("%d registers on %d pages", len(users), len(f.mapped))
			}
			if at := qps[0].bells(t, c.pages.mapped[0]); at != [2]int{0x800, 0x800} {
				t.Errorf("bells at %#x", at)
			}
			continue
		}
		all, own := registers()
		alone := 0
		for _, n := range users {
			if n == 1 {
				alone++
			}
		}
		if len(users) != int(all) || alone < int(own) || len(f.mapped) != 1+int(all)/2 {
			t.Errorf("%d registers, %d of them for one queue pair, on %d pages", len(users), alone, len(f.mapped))
		}
		first := qps[0].reg
		for _, q := range qps {
			q.Detach()
		}
		q := newQPN(t, rc(cq, 4, 1), 99)
		if q.reg.users != 0 || len(f.mapped) != 1+int(all)/2 || first.users != 0 {
			t.Error("registers do not come back")
		}
	}
}

// TestBlueFlame checks that a single entry that fits is copied into the register, even if it wraps
// around the end of the queue. For others the doorbell is rung.
func TestBlueFlame(t *testing.T) {
	t.Setenv(blueFlameEnv, "1")
	for _, how := range []func(*fake, *abi.Mlx5AllocUcontextResp){func(*fake, *abi.Mlx5AllocUcontextResp) {}, dynamic} {
		c := newContext(t, how)
		if f := c.dev.File.(*fake); c.pages.dynamic == (f.offsets[0]>>12&0xff == abi.MLX5_IB_MMAP_REGULAR_PAGE && f.offsets[0] == 0) {
			t.Errorf("mapped at %#x", f.offsets)
		}
		a := rc(newCQ(t, c, 10), 4, 1)
		a.Cap.MaxSendSGE = 20
		q := newQP(t, a)
		page := c.pages.mapped[1]
		half := 0
		post := func(entries, pieces int) (what string) {
			t.Helper()
			clear(page)
			list := slices.Repeat([]provider.SGE{piece64}, pieces)
			wr := provider.WR{Opcode: provider.WRSend}
			for range entries {
				if _, _, ok := q.Begin(&wr, list); !ok {
					t.Fatal("full")
				}
			}
			q.Ring(0)
			at := abi.MLX5_BF_OFFSET + half*256
			half ^= 1
			last := q.entry(q.off / blockSize)
			n := roundUp(len(last), blockSize)
			rest := slices.Concat(page[:at], page[at+256:])
			if !slices.Equal(rest, make([]byte, len(rest))) {
				t.Error("something is elsewhere")
			}
			switch got := page[at:][:256]; {
			case slices.Equal(got[:8], last[:8]) && slices.Equal(got[8:], make([]byte, 248)):
				return "bell"
			case n <= 256 && slices.Equal(got[:len(last)], last) && slices.Equal(got[n:], make([]byte, 256-n)):
				return "flame"
			default:
				return words(got)
			}
		}
		for range 3 {
			for _, k := range []struct {
				entries, pieces int
				want            string
			}{{1, 1, "flame"}, {1, 15, "flame"}, {2, 1, "bell"}, {1, 0, "bell"}, {1, 16, "bell"}, {1, 7, "flame"}} {
				if got := post(k.entries, k.pieces); got != k.want {
					t.Errorf("%d of %d pieces at %d: %s, not %s", k.entries, k.pieces, q.off/blockSize, got, k.want)
				}
				q.done = q.head
			}
		}
	}
	// Register 0 is for doorbells only, and so are registers without write combining.
	c := newContext(t)
	o, _ := c.NewQP(rc(newCQ(t, c, 10), 4, 1))
	if err := o.Attach(&provider.QPMade{}); err != nil || len(o.(*qp).reg.flame[0]) != 0 {
		t.Errorf("register 0: %v", err)
	}
	o.Detach()
	none := newContext(t, func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.BfRegSize = 0 })
	q := newQP(t, rc(newCQ(t, none, 10), 4, 1))
	if at := q.bells(t, none.pages.mapped[1]); at != [2]int{0x800, 0x800} {
		t.Errorf("bells at %#x", at)
	}
}
