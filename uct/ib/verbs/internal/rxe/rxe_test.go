package rxe

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// memoryFile maps what a test gives it.
type memoryFile struct {
	uverbs.File
	mem      []byte
	unmapped int
}

func (m *memoryFile) Name() string                             { return "memory" }
func (m *memoryFile) Mmap(uint64, int) ([]byte, syscall.Errno) { return m.mem, 0 }
func (m *memoryFile) Munmap([]byte) syscall.Errno              { m.unmapped++; return 0 }

// newMemory is a ring as the kernel would make it, in memory aligned for it.
func newMemory(size int, log2, mask uint32) (*memoryFile, *abi.RxeQueueBuf) {
	words := make([]uint64, size/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)
	h := (*abi.RxeQueueBuf)(unsafe.Pointer(&words[0]))
	h.Log2ElemSize, h.IndexMask = log2, mask
	return &memoryFile{mem: mem}, h
}

// TestRingChecks: a ring that does not fit its mapping is not used.
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

// TestRingIndices: indices of the other side are taken for what they are modulo
// the size, whatever they are.
func TestRingIndices(t *testing.T) {
	f, h := newMemory(4096, 6, 7)
	q := &cq{}
	if err := q.ring.mmap(provider.Device{File: f}, abi.Mminfo{Size: 4096}, 48); err != nil {
		t.Fatal(err)
	}
	wc := make([]provider.WC, 20)
	h.ProducerIndex = 0xfffffffb // 3
	if n := q.Poll(wc); n != 3 || h.ConsumerIndex != 3 {
		t.Errorf("%d completions, index %d", n, h.ConsumerIndex)
	}
	h.ProducerIndex = 2 // once around
	if n := q.Poll(wc); n != 7 || h.ConsumerIndex != 2 {
		t.Errorf("%d completions, index %d", n, h.ConsumerIndex)
	}
	f, h = newMemory(4096, 6, 7)
	var rq recvQueue
	if err := rq.mmap(provider.Device{File: f}, abi.Mminfo{Size: 4096}, 1); err != nil {
		t.Fatal(err)
	}
	h.ConsumerIndex = 0xfffffff8 // 0
	n, err := rq.post(make([]provider.RecvWR, 20))
	if n != 7 || !errors.Is(err, ucs.ErrNoResource) || h.ProducerIndex != 7 {
		t.Errorf("%d receives, index %d: %v", n, h.ProducerIndex, err)
	}
	h.ConsumerIndex = 3
	if n, err := rq.post(make([]provider.RecvWR, 3)); n != 3 || err != nil || h.ProducerIndex != 2 {
		t.Errorf("%d receives, index %d: %v", n, h.ProducerIndex, err)
	}
}

// TestOldAH: a kernel that does not number addresses is named.
func TestOldAH(t *testing.T) {
	err := (&ah{ctx: &context{dev: provider.Device{File: &memoryFile{}}}}).Attach()
	if !errors.Is(err, ucs.ErrUnsupported) || !strings.Contains(err.Error(), "need Linux 5.16") {
		t.Error(err)
	}
}

// TestResizeAnswer: a new ring that the kernel names is checked as the first was, and
// the cell of its name comes back.
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
		cell, spare := next.(*srqResizing).cell, len(c.cells.spare)
		copy(cell, abi.Bytes(&abi.Mminfo{Size: size}))
		h.ProducerIndex = 0xfffffffd // 5
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
