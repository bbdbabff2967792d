//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// openContext opens a context for a transport, closed at the end of the test.
func openContext(t testing.TB, tr transport, more ...setting) *ucp.Context {
	t.Helper()
	ucttest.NoLeaks(t)
	r := &rig{TB: t, transport: tr.with(more...)}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureRMA}, r.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// freePages returns an address at which nothing is mapped.
func freePages(t *testing.T, n int) uint64 {
	t.Helper()
	// The low end of a large gap: the kernel fills gaps from the high end.
	b, err := arena.Map(n+1<<30, arena.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Unmap(b)
	return addressOf(b)
}

// TestMemMapMatrix checks the result of every combination of flags, address and length
// (ucp_mem_map).
func TestMemMapMatrix(t *testing.T) {
	const length = 10000
	page := arena.PageSize
	own := make([]byte, length)
	aligned := make([]byte, 4*page)
	aligned = aligned[page-int(addressOf(aligned)%uint64(page)):][:2*page]
	odd := aligned[1:page]
	free := freePages(t, length)
	const allocate, fixed = ucp.MemMapAllocate, ucp.MemMapFixed
	type result int
	const (
		invalid result = iota
		empty
		registers
		allocates
		allocatesThere
	)
	for _, c := range []struct {
		name string
		p    ucp.MemMapParams
		want result
	}{
		{"nothing", ucp.MemMapParams{}, invalid},
		{"length only", ucp.MemMapParams{Length: length}, invalid},
		{"allocate", ucp.MemMapParams{Length: length, Flags: allocate}, allocates},
		{"allocate nothing", ucp.MemMapParams{Flags: allocate}, empty},
		{"fixed without address", ucp.MemMapParams{Length: length, Flags: fixed}, invalid},
		{"fixed, no address, no length", ucp.MemMapParams{Flags: fixed}, empty},
		{"allocate fixed without address", ucp.MemMapParams{Length: length, Flags: allocate | fixed}, invalid},
		{"allocate fixed nothing", ucp.MemMapParams{Flags: allocate | fixed}, empty},
		{"register", ucp.MemMapParams{Buffer: own}, registers},
		{"register with its length", ucp.MemMapParams{Buffer: own, Length: length}, registers},
		{"register with another length", ucp.MemMapParams{Buffer: own, Length: length - 1}, invalid},
		{"register nothing", ucp.MemMapParams{Buffer: own[:0]}, empty},
		{"register nonblocking", ucp.MemMapParams{Buffer: own, Flags: ucp.MemMapNonblock}, registers},
		{"symmetric", ucp.MemMapParams{Buffer: own, Flags: ucp.MemMapSymmetricRkey}, registers},
		{"hint", ucp.MemMapParams{Length: length, Address: free, Flags: allocate}, allocates},
		{"hint nonblocking", ucp.MemMapParams{Length: length, Address: free, Flags: allocate | ucp.MemMapNonblock}, allocates},
		{"hint of nothing", ucp.MemMapParams{Address: free, Flags: allocate}, empty},
		{"address of nothing", ucp.MemMapParams{Address: free}, empty},
		{"address only", ucp.MemMapParams{Address: free, Length: length}, invalid},
		{"fixed memory that is there", ucp.MemMapParams{Buffer: aligned, Flags: fixed}, invalid},
		{"fixed, aligned, no length", ucp.MemMapParams{Address: free, Flags: fixed}, empty},
		{"fixed, misaligned, no length", ucp.MemMapParams{Address: free + 1, Flags: fixed}, invalid},
		{"fixed buffer, misaligned", ucp.MemMapParams{Buffer: odd, Flags: fixed}, invalid},
		{"allocate fixed", ucp.MemMapParams{Length: length, Address: free, Flags: allocate | fixed}, allocatesThere},
		{"allocate fixed, misaligned", ucp.MemMapParams{Length: length, Address: free + 1, Flags: allocate | fixed}, invalid},
		{"allocate fixed, misaligned, no length", ucp.MemMapParams{Address: free + 1, Flags: allocate | fixed}, invalid},
		{"buffer and address", ucp.MemMapParams{Buffer: own, Address: free}, invalid},
		{"allocate a buffer", ucp.MemMapParams{Buffer: own, Flags: allocate}, invalid},
		{"negative length", ucp.MemMapParams{Length: -1, Flags: allocate}, invalid},
		{"unknown flag", ucp.MemMapParams{Buffer: own, Flags: 1 << 4}, invalid},
		{"unknown right", ucp.MemMapParams{Buffer: own, Prot: 1 << 2}, invalid},
		{"unknown memory type", ucp.MemMapParams{Buffer: own, MemoryType: 200}, invalid},
		{"exported and allocate", ucp.MemMapParams{Exported: []byte{0, 0, 0}, Flags: allocate}, invalid},
		{"exported and a buffer", ucp.MemMapParams{Exported: []byte{0, 0, 0}, Buffer: own}, invalid},
		{"exported, empty", ucp.MemMapParams{Exported: []byte{0, 0, 0}}, empty},
		{"exported, garbage", ucp.MemMapParams{Exported: []byte{9, 1}}, invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := openContext(t, byName(t, "tcp"))
			m, err := ctx.MemMap(c.p)
			if c.want == invalid {
				if m != nil || !errors.Is(err, ucs.ErrInvalidParam) {
					t.Fatalf("%v, %v", m, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			a := m.Attr()
			if a.MemoryType != ucs.MemoryHost {
				t.Errorf("memory type %v", a.MemoryType)
			}
			switch c.want {
			case empty:
				if a.Length != 0 || a.Address != 0 {
					t.Errorf("%+v", a)
				}
			case registers:
				if want := (ucp.MemAttr{Address: addressOf(c.p.Buffer), Length: len(c.p.Buffer), MemoryType: ucs.MemoryHost}); a != want {
					t.Errorf("%+v, want %+v", a, want)
				}
			case allocatesThere:
				if a.Address != c.p.Address {
					t.Errorf("at %#x, want %#x", a.Address, c.p.Address)
				}
				fallthrough
			case allocates:
				if a.Length < length || len(m.Bytes()) != a.Length || addressOf(m.Bytes()) != a.Address {
					t.Errorf("%+v", a)
				}
				for i := range m.Bytes() {
					m.Bytes()[i]++
				}
			}
			if key, err := m.PackRkey(); err != nil || len(key) < 9 {
				t.Errorf("key %x, %v", key, err)
			}
			if err := m.Advise(ucp.MemAdviseParams{Length: a.Length, Advice: ucp.AdviceWillNeed}); err != nil {
				t.Error(err)
			}
			for range 3 {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestAllocation checks that the methods of allocation are tried in the order of UCX_ALLOC_PRIO.
func TestAllocation(t *testing.T) {
	sim := byName(t, "sim")
	for _, c := range []struct {
		prio string
		tr   transport
		flag ucp.MemMapFlags
		size int
		want string // the method, or a part of the error
	}{
		{"md:*,mmap", sim, 0, 100, "sim"},
		{"md:sim", sim, 0, 100, "sim"},
		{"md:other,mmap", sim, 0, 100, "mmap"},
		{"md:*,mmap", byName(t, "tcp"), 0, 100, "mmap"},
		{"thp,heap", byName(t, "tcp"), 0, 100, "heap"},
		{"thp,heap", byName(t, "tcp"), 0, 4 << 20, "thp"},
		{"md:*,heap", byName(t, "tcp"), ucp.MemMapFixed, 100, "cannot allocate at a fixed address"},
		{"md:posix,elsewhere", byName(t, "tcp"), 0, 100, "elsewhere: not an allocation method"},
		{"mmap", byName(t, "tcp"), 0, math.MaxInt/2 + 1, "cannot allocate"},
	} {
		ctx := openContext(t, c.tr, setting{"ALLOC_PRIO", c.prio})
		p := ucp.MemMapParams{Length: c.size, Flags: ucp.MemMapAllocate | c.flag}
		if c.flag != 0 {
			p.Address = freePages(t, c.size)
		}
		m, err := ctx.MemMap(p)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !errors.Is(err, ucs.ErrNoMemory) {
				t.Errorf("%s: %v, want %q", c.prio, err, c.want)
			}
			continue
		}
		var b strings.Builder
		if err := m.WriteInfo(&b); err != nil || !strings.Contains(b.String(), "with "+c.want+",") {
			t.Errorf("%s: %v, want %q:\n%s", c.prio, err, c.want, b.String())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMemAdvise(t *testing.T) {
	ctx := openContext(t, byName(t, "tcp"))
	m, err := ctx.MemMap(ucp.MemMapParams{Length: 100_000, Flags: ucp.MemMapAllocate | ucp.MemMapNonblock})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	n := m.Attr().Length
	for _, c := range []struct {
		p  ucp.MemAdviseParams
		ok bool
	}{
		{ucp.MemAdviseParams{Length: n}, true},
		{ucp.MemAdviseParams{Offset: 5000, Length: n - 5000, Advice: ucp.AdviceWillNeed}, true},
		{ucp.MemAdviseParams{Offset: n, Advice: ucp.AdviceWillNeed}, true},
		{ucp.MemAdviseParams{Offset: -1, Length: 1}, false},
		{ucp.MemAdviseParams{Length: -1}, false},
		{ucp.MemAdviseParams{Length: n + 1}, false},
		{ucp.MemAdviseParams{Offset: n, Length: 1}, false},
		{ucp.MemAdviseParams{Offset: 1, Length: int(^uint(0) >> 1)}, false},
		{ucp.MemAdviseParams{Length: 1, Advice: 99}, false},
	} {
		if err := m.Advise(c.p); (err == nil) != c.ok || err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%+v: %v", c.p, err)
		}
	}
}

// TestMemoryPinned checks that registered memory is neither moved nor changed by the garbage
// collector.
func TestMemoryPinned(t *testing.T) {
	ctx := openContext(t, byName(t, "self"))
	var maps []*ucp.Memory
	var addrs []uint64
	for i := range 50 {
		b := bytes.Repeat([]byte{byte(i)}, 1000+i)
		m, err := ctx.MemMap(ucp.MemMapParams{Buffer: b})
		if err != nil {
			t.Fatal(err)
		}
		maps, addrs = append(maps, m), append(addrs, addressOf(b))
	}
	for range 3 {
		runtime.GC()
	}
	for i, m := range maps {
		b := m.Bytes()
		if m.Attr().Address != addrs[i] || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, 1000+i)) {
			t.Errorf("memory %d has changed", i)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		b[0]++
	}
}

// TestMemoryKeepsContext checks that a context with registered memory cannot be closed, and that a
// closed context registers nothing.
func TestMemoryKeepsContext(t *testing.T) {
	for _, name := range []string{"self", "tcp", "sim"} {
		ctx := openContext(t, byName(t, name))
		m, err := ctx.MemMap(ucp.MemMapParams{Buffer: make([]byte, 8)})
		if err != nil {
			t.Fatal(err)
		}
		if err := ctx.Close(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("%s: close: %v", name, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ctx.MemMap(ucp.MemMapParams{Buffer: make([]byte, 8)}); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: closed: %v", name, err)
		}
	}
}

// TestExport checks that memory cannot be exported by a domain without support, and that an empty
// handle can be exported and imported nevertheless.
func TestExport(t *testing.T) {
	ctx := openContext(t, byName(t, "tcp"))
	m, err := ctx.MemMap(ucp.MemMapParams{Buffer: make([]byte, 8)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if b, err := m.Export(); b != nil || !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("%x, %v", b, err)
	}
	none, err := ctx.MemMap(ucp.MemMapParams{Buffer: []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := none.Export()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ctx.MemMap(ucp.MemMapParams{Exported: b})
	if err != nil || back.Attr().Length != 0 {
		t.Errorf("%v, %v", back, err)
	}
	// A handle of a device that can export (size, flags 1, one domain, 4 fields).
	foreign := append([]byte{43, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 32)...)
	foreign[20] = 100
	foreign = append(foreign, 3, 1, 7, 0)
	if _, err := ctx.MemMap(ucp.MemMapParams{Exported: foreign}); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("a foreign handle: %v", err)
	}
}

func TestWriteMemInfo(t *testing.T) {
	ctx := openContext(t, byName(t, "tcp"))
	for _, c := range []struct {
		spec string
		want string // in the text; empty: an error is wanted
	}{
		{"1m,host", "allocated 1M at address 0x"}, {"64k", "allocated 64K"},
		{"abc", ""}, {"1m,foo", ""}, {"1m,cuda", ""}, {"0", ""}, {"", ""}, {"-5", ""}, {"inf", ""},
	} {
		var b strings.Builder
		err := ctx.WriteMemInfo(&b, c.spec)
		if c.want == "" {
			if !errors.Is(err, ucs.ErrInvalidParam) && !errors.Is(err, ucs.ErrNoMemory) {
				t.Errorf("%q: %v\n%s", c.spec, err, b.String())
			}
		} else if err != nil || !strings.Contains(b.String(), c.want) || !strings.Contains(b.String(), "registered on: tcp") {
			t.Errorf("%q: %v\n%s", c.spec, err, b.String())
		}
	}
}
