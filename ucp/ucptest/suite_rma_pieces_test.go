//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// pieceSize is the number of bytes that a worker copies at most in a round of progress.
const pieceSize = 512 << 10

// copies reports whether this side's CPU copies the data of one-sided operations on allocated
// memory.
func (tr transport) copies() bool {
	switch tr.name {
	case "self", "posix", "sysv", "posix and cma":
		return true
	}
	return false
}

// piecesPair opens two workers, one of which has access to n bytes of the other.
func piecesPair(r *rig, n int) (a, b *side, ep *ucp.Endpoint, w window) {
	r.Helper()
	a, b = r.oneSidedPair()
	ep = a.connectWith(b, ucp.EndpointParams{ErrMode: r.peerMode()})
	r.warm(ep, b)
	m, err := b.ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate})
	if err != nil {
		r.Fatal(err)
	}
	b.unmap = append(b.unmap, m)
	return a, b, ep, r.unpack(ep, m)
}

// written returns the number of bytes of src that have arrived in mem.
func written(mem, src []byte) int {
	const step = 4096
	n := 0
	for n < len(src) && bytes.Equal(mem[n:n+step], src[n:n+step]) {
		n += step
	}
	return n
}

// testPieces checks that a long put or get copies one piece in the call and one in each round of
// progress, that several operations take turns, and that messages are not delayed.
func testPieces(t *testing.T, tr transport) {
	if !tr.copies() {
		return
	}
	r := newRig(t, tr)
	const n = 8 * pieceSize
	a, b, ep, w := piecesPair(r, 2*n)
	one, two := bytes.Repeat([]byte{1}, n), bytes.Repeat([]byte{2}, n)
	mem := w.Bytes()[:2*n]
	p1 := r.started(ep.Put(one, w.addr, w.key, nil))
	p2 := r.started(ep.Put(two, w.addr+n, w.key, nil))
	if x, y := written(mem, one), written(mem[n:], two); x != pieceSize || y != pieceSize {
		t.Fatalf("%d and %d bytes in the calls, want one piece each", x, y)
	}
	buf := make([]byte, 8)
	recv, err := b.TagRecv(5, ucp.FullMask, buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.must(ep.TagSend(5, []byte("overtake"), nil))
	if b != a {
		b.Progress()
	}
	if recv != nil && !recv.Done() {
		t.Error("a message waits for a put")
	}
	recv.Free()
	for rounds := 1; !p1.Done() || !p2.Done(); rounds++ {
		if err := a.Arm(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("asleep with a put half done: %v", err)
		}
		before := written(mem, one) + written(mem[n:], two)
		if a.Progress() == 0 {
			t.Fatal("no progress")
		}
		x, y := written(mem, one), written(mem[n:], two)
		if got := x + y - before; got > pieceSize {
			t.Fatalf("%d bytes in one round", got)
		}
		if d := x - y; d > pieceSize || d < -pieceSize {
			t.Fatalf("%d bytes of one put, %d of the other", x, y)
		}
		if rounds > 100 {
			t.Fatal("no end")
		}
	}
	r.must(p1, nil)
	r.must(p2, nil)
	ucttest.SameBytes(t, "put", mem, append(one, two...))

	dst := make([]byte, 2*n)
	g := r.started(ep.Get(dst, w.addr, w.key, nil))
	for !g.Done() {
		before := written(dst, mem)
		if a.Progress() == 0 {
			t.Fatal("no progress")
		}
		if got := written(dst, mem) - before; got > pieceSize {
			t.Fatalf("%d bytes in one round", got)
		}
	}
	r.must(g, nil)
	ucttest.SameBytes(t, "get", dst, mem)
}

// testPiecesByMessages checks the same for operations by messages.
func testPiecesByMessages(t *testing.T, tr transport) {
	switch tr.name {
	case "tcp", "posix", "simmsg":
	default:
		return
	}
	r := newRig(t, tr.with(setting{"ZCOPY_THRESH", "inf"}))
	const n = 8 * pieceSize
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	r.warm(ep, b)
	mem := make([]byte, n)
	w := r.unpack(ep, b.expose(mem, 0))
	src := bytes.Repeat([]byte{3}, n)
	put := r.started(ep.Put(src, w.addr, w.key, nil))
	flush := r.started(ep.Flush(nil))
	come := func() int {
		for b.Progress() > 0 {
		}
		return written(mem, src)
	}
	const most = pieceSize + 64<<10 // in whole messages
	for before := 0; ; {
		got := come()
		if got-before > most {
			t.Fatalf("%d bytes in one round", got-before)
		}
		if before = got; got == n {
			break
		}
		a.Progress()
	}
	r.must(put, nil)
	r.must(flush, nil)
	ucttest.SameBytes(t, "put", mem, src)
}

// testFlushBehindPieces checks that a flush, and a fence, wait for earlier operations and for no
// later ones.
func testFlushBehindPieces(t *testing.T, tr transport) {
	if !tr.copies() {
		return
	}
	r := newRig(t, tr)
	const n, count = 4 * pieceSize, 4
	a, _, ep, w := piecesPair(r, count*n)
	mem := w.Bytes()
	src := bytes.Repeat([]byte{7}, n)
	var puts, flushes [count]*ucp.Request
	for k := range count {
		puts[k] = r.started(ep.Put(src, w.addr+uint64(k*n), w.key, nil))
		flush := ep.Flush
		if k%2 == 1 {
			flush = a.Flush
		}
		flushes[k] = r.started(flush(nil))
	}
	for k := range count {
		early := false
		r.until("a flush", func() bool {
			if !flushes[k].Done() {
				return false
			}
			early = written(mem[k*n:], src) < n
			return true
		})
		if early || !puts[k].Done() {
			t.Errorf("flush %d is done before its put", k)
		}
	}
	for k := range count {
		r.must(puts[k], nil)
		r.must(flushes[k], nil)
	}

	// The first flush does not wait for a later put.
	first := r.started(ep.Put(src[:2*pieceSize], w.addr, w.key, nil))
	flush := r.started(ep.Flush(nil))
	late := r.started(ep.Put(src, w.addr, w.key, nil))
	r.until("the flush", flush.Done)
	if late.Done() {
		t.Error("a flush has waited for a later put")
	}
	r.must(first, nil)
	r.must(flush, nil)
	r.must(late, nil)

	// Operations after a fence do not overtake pieces before it.
	clear(mem)
	long := r.started(ep.Put(src, w.addr, w.key, nil))
	if err := a.Fence(); err != nil {
		t.Fatal(err)
	}
	short, err := ep.Put([]byte{1}, w.addr+n, w.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.until("a put behind a fence", func() bool {
		if mem[n] == 0 {
			return false
		}
		if written(mem, src) < n {
			t.Fatal("a put has overtaken the pieces of another")
		}
		return true
	})
	r.must(long, nil)
	r.must(short, nil)
	r.must(ep.Flush(nil))
}

// testCloseAmidPieces checks that a forced close ends operations in pieces and the flushes behind
// them, each once.
func testCloseAmidPieces(t *testing.T, tr transport) {
	if !tr.copies() {
		return
	}
	r := newRig(t, tr)
	const n = 8 * pieceSize
	a, _, ep, w := piecesPair(r, n)
	var outs [5]outcome
	var reqs [5]*ucp.Request
	params := func(i int) *ucp.RequestParams {
		return &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: outs[i].onSend}
	}
	buf := make([]byte, n)
	reqs[0] = r.started(ep.Put(buf, w.addr, w.key, params(0)))
	reqs[1] = r.started(ep.Flush(params(1)))
	reqs[2] = r.started(ep.Get(buf, w.addr, w.key, params(2)))
	reqs[3] = r.started(ep.Flush(params(3)))
	a.Progress()
	reqs[4] = r.started(ep.Put(buf, w.addr, w.key, params(4)))
	r.inTheCall(ep.CloseAsync(force))
	for i, req := range reqs {
		if !req.Done() {
			t.Fatalf("operation %d goes on", i)
		}
		outs[i].once(t)
		if err := req.Err(); !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("operation %d: %v", i, err)
		}
		req.Free()
	}
	r.settle()
}
