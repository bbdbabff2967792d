//go:build linux

package rxe

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// memoryFile maps the memory that a test provides.
type memoryFile struct {
	uverbs.File
	mem      []byte
	unmapped int
	write    func()
}

func (m *memoryFile) Write(b []byte) (int, syscall.Errno) { m.write(); return len(b), 0 }

func (m *memoryFile) Name() string                             { return "memory" }
func (m *memoryFile) Mmap(uint64, int) ([]byte, syscall.Errno) { return m.mem, 0 }
func (m *memoryFile) Munmap([]byte) syscall.Errno              { m.unmapped++; return 0 }

// newMemory returns a ring as the kernel would make it, in aligned memory.
func newMemory(size int, log2, mask uint32) (*memoryFile, *abi.RxeQueueBuf) {
	words := make([]uint64, size/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)
	h := (*abi.RxeQueueBuf)(unsafe.Pointer(&words[0]))
	h.Log2ElemSize, h.IndexMask = log2, mask
	return &memoryFile{mem: mem}, h
}

// TestRingChecks checks that a ring which does not fit its mapping is refused.
func TestRingChecks(t *testing.T) {
	for what, c := range map[string]struct {
		log2, mask, size uint32
		elem             int
		ok               bool
	}{
		"good":           {8, 7, 4096, 200, true},
		"just fits":      {8, 7, 384 + 2048, 256, true},
		"one byte short": {8, 7, 384 + 2048 - 8, 256, false},
		"small elements": {6, 7, 4096, 65, false},
		"odd mask":       {6, 6, 4096, 48, false},
		"huge elements":  {40, 1, 4096, 48, false},
		"huge mask":      {6, 0xffffffff, 4096, 48, false},
		"no header":      {6, 0, 128, 48, false},
	} {
		f, _ := newMemory(4096, c.log2, c.mask)
		f.mem = f.mem[:c.size]
		var r ring
		err := r.mmap(provider.Device{File: f}, abi.Mminfo{Size: c.size}, c.elem)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%s: %v", what, err)
		}
		r.unmap()
		r.unmap()
		if want := 1; c.size >= 384 && f.unmapped != want {
			t.Errorf("%s: unmapped %d times", what, f.unmapped)
		}
	}
}

// TestRingIndices checks that indices written by the kernel are taken modulo the size of the ring.
func TestRingIndices(t *testing.T) {
	f, h := newMemory(4096, 6, 7)
	q := &cq{}
	if err := q.ring.mmap(provider.Device{File: f}, abi.Mminfo{Size: 4096}, 48); err != nil {
		t.Fatal(err)
	}
	wc := make([]provider.WC, 20)
	h.ProducerIndex = 0xfffffffb // 3 modulo 8
	if n := q.Poll(wc); n != 3 || h.ConsumerIndex != 3 {
		t.Errorf("%d completions, index %d", n, h.ConsumerIndex)
	}
	h.ProducerIndex = 2 // wraps around
	if n := q.Poll(wc); n != 7 || h.ConsumerIndex != 2 {
		t.Errorf("%d completions, index %d", n, h.ConsumerIndex)
	}
	f, h = newMemory(4096, 6, 7)
	var rq recvQueue
	if err := rq.mmap(provider.Device{File: f}, abi.Mminfo{Size: 4096}, 1); err != nil {
		t.Fatal(err)
	}
	h.ConsumerIndex = 0xfffffff8 // 0 modulo 8
	n, err := rq.post(make([]provider.RecvWR, 20))
	if n != 7 || !errors.Is(err, ucs.ErrNoResource) || h.ProducerIndex != 7 {
		t.Errorf("%d receives, index %d: %v", n, h.ProducerIndex, err)
	}
	h.ConsumerIndex = 3
	if n, err := rq.post(make([]provider.RecvWR, 3)); n != 3 || err != nil || h.ProducerIndex != 2 {
		t.Errorf("%d receives, index %d: %v", n, h.ProducerIndex, err)
	}
}

// TestOldAH checks that the error for a kernel without numbered address handles names the version
// needed.
func TestOldAH(t *testing.T) {
	err := (&ah{ctx: &context{dev: provider.Device{File: &memoryFile{}}}}).Attach()
	if !errors.Is(err, ucs.ErrUnsupported) || !strings.Contains(err.Error(), "need Linux 5.16") {
		t.Error(err)
	}
}

// TestResizeAnswer checks that a new ring which the kernel names is checked like the first, and
// that the memory cell for its name is freed.
func TestResizeAnswer(t *testing.T) {
	f, h := newMemory(4096, 6, 7)
	c := &context{dev: provider.Device{File: f}}
	defer c.Detach()
	for _, size := range []uint32{100, 1 << 31, 4096} {
		h.ProducerIndex = 0
		s := &srq{ctx: c}
		if err := s.rq.mmap(c.dev, abi.Mminfo{Size: 4096}, 1); err != nil {
			t.Fatal(err)
		}
		if n, err := s.PostRecv(make([]provider.RecvWR, 5)); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		small, enough := 4, 5
		if _, err := s.Resize(&small); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("no room for what is posted: %v", err)
		}
		next, err := s.Resize(&enough)
		if err != nil {
			t.Fatal(err)
		}
		cell, spare := next.(*srqResizing).location, len(c.cells.spare)
		copy(cell, abi.Bytes(&abi.Mminfo{Size: size}))
		h.ProducerIndex = 0xfffffffd // 5 modulo 8
		n := 0
		err = next.Done(&n)
		if ok := size == 4096; ok != (err == nil) || !ok && !errors.Is(err, ucs.ErrIO) {
			t.Errorf("a ring of %d bytes: %v", size, err)
		}
		if n, e := s.PostRecv(make([]provider.RecvWR, 9)); err == nil && (n != 2 || !errors.Is(e, ucs.ErrNoResource)) {
			t.Errorf("%d receives beside 5 in a ring of 7: %v", n, e)
		} else if err != nil && (n != 0 || e == nil) {
			t.Errorf("%d receives without a ring: %v", n, e)
		}
		if len(c.cells.spare) != spare+1 {
			t.Errorf("%d cells, %d before", len(c.cells.spare), spare)
		}
		s.Detach()
		s.Detach()
	}
}

// TestUnused checks the parts of the provider interface that rxe does not use: it maps nothing for
// the device, lacks no feature, numbers no events, its entries do not wrap, and it keeps the
// kernel's sizes.
func TestUnused(t *testing.T) {
	c, _ := open(provider.Device{File: &memoryFile{}})
	if in, out := c.Data(); in != nil || out != nil || c.Attach() != nil {
		t.Errorf("% x and % x go with GET_CONTEXT, or something is mapped", in, out)
	}
	for f := range provider.Features {
		if why := c.Lacks(f); why != "" {
			t.Errorf("%v: %s", f, why)
		}
	}
	init := provider.CQInit{CQE: 100}
	made := provider.CQMade{Handle: 1, CQE: 127}
	q, err := c.NewCQ(&init)
	if err != nil || init.CQE != 100 {
		t.Errorf("%+v: %v", init, err)
	}
	f, _ := newMemory(4096, 6, 7)
	_, out := q.Data()
	copy(out, abi.Bytes(&abi.Mminfo{Size: 4096}))
	q.(*cq).ctx.dev.File = f
	if err := q.Attach(&made); err != nil || made.CQE != 127 {
		t.Errorf("%+v: %v", made, err)
	}
	q.EventTaken()
	if n := q.Poll(make([]provider.WC, 1)); n != 0 {
		t.Errorf("%d completions", n)
	}
	q.Detach()
	if n := q.Poll(make([]provider.WC, 1)); n != 0 || f.unmapped != 1 {
		t.Errorf("%d completions of what is gone, unmapped %d times", n, f.unmapped)
	}
	cap := provider.QPCap{MaxSendWR: 7, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 16}
	p, err := c.NewQP(&provider.QPInit{Type: provider.RC, Cap: cap})
	if from, to := p.More(); err != nil || from != to {
		t.Errorf("room from %d to %d: %v", from, to, err)
	}
	p.Reset() // before the queue pair is attached
	p.Drop()
	p.Detach()
	a, _ := c.NewAH(nil)
	a.Detach()
	c.Detach()
}

// TestUnrung checks that requests without a doorbell, or that were taken back, are not in the ring.
func TestUnrung(t *testing.T) {
	c := &context{}
	f, h := newMemory(384+8*256, 8, 7)
	c.dev.File = f
	defer c.Detach()
	q := &qp{ctx: c, typ: provider.RC, shared: true}
	q.resp.SqMi.Size = uint32(len(f.mem))
	made := provider.QPMade{Cap: provider.QPCap{MaxSendSGE: 3, MaxInline: 48}}
	if err := q.Attach(&made); err != nil {
		t.Fatal(err)
	}
	rung := 0
	f.write = func() { rung++ }
	begin := func(id uint64) {
		t.Helper()
		wr := provider.WR{ID: id, Opcode: provider.WRSend}
		from, to, ok := q.Begin(&wr, nil)
		if !ok || to-from != 48 || copy(made.Sends[from:to], "data") != 4 {
			t.Fatalf("room from %d to %d, %v", from, to, ok)
		}
	}
	for id := range uint64(7) {
		begin(id)
	}
	if _, _, ok := q.Begin(&provider.WR{}, nil); ok || h.ProducerIndex != 0 {
		t.Errorf("room for more, or published: %d", h.ProducerIndex)
	}
	q.Undo()
	q.Undo()
	begin(100)
	if err := q.Ring(4); err != nil || h.ProducerIndex != 6 || rung != 1 {
		t.Errorf("published up to %d, rung %d times: %v", h.ProducerIndex, rung, err)
	}
	w := q.sq.send(5)
	if w.Wr.WrId != 100 || w.Dma.Length != 4 || w.Dma.Resid != 4 || w.Wr.SendFlags != uint32(provider.SendInline) {
		t.Errorf("%+v", w)
	}
	begin(101)
	q.Drop()
	begin(102)
	q.Reset()
	begin(103)
	if err := q.Ring(0); err != nil || h.ProducerIndex != 7 || q.sq.send(6).Wr.WrId != 103 {
		t.Errorf("published up to %d: %v", h.ProducerIndex, err)
	}
	q.Detach()
	q.Detach()
	if f.unmapped != 1 {
		t.Errorf("unmapped %d times", f.unmapped)
	}
}
