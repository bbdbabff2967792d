package ucpnet

import (
	"sync"
	"sync/atomic"
)

// Flow control. What the peer has not read takes its memory, which over shared memory
// nothing else bounds but the failure of the endpoint, and over tcp the end of all reading
// of the connection, notes too. So the writer counts what its bytes cost there, sets a mark
// behind each stretch, and goes on when at most one stretch behind the last mark that was
// read is unread. A mark is answered when the reader gets there: who asks and answers by
// small messages sends few notes.
//
// Toward peers that know no notes there is what package ucp has.

const (
	stretch = 256 << 10 // what is sent between two marks, as it costs
	marks   = 2         // of stretches that may be unread

	// What a packet costs where it is not read yet: itself in the memory of the transport,
	// which may be up to 8 times as large but not larger than its buffers mostly are, and
	// what ucp keeps with it.
	packetWaste = 8
	packetSize  = 8 << 10
	packetCost  = 256
)

// cost is what n bytes in one packet cost.
func cost(n int) int { return max(n, min(n*packetWaste, packetSize)) + packetCost }

// window is what the writer knows.
type window struct {
	at    uint64 // bytes sent
	spent int    // since the last mark
	set   [marks]uint64
	n     int // of them
}

// mark counts what was sent, up to at, and reports whether there is to be a mark behind it.
func (w *window) mark(cost int) bool {
	if w.spent += cost; w.spent < stretch || w.n == marks {
		return false
	}
	w.spent = 0
	w.set[w.n] = w.at
	w.n++
	return true
}

// last is the last mark that the peer may not have answered, 0 if there is none.
func (w *window) last() uint64 {
	if w.n == 0 {
		return 0
	}
	return w.set[w.n-1]
}

// open reports whether more may be sent when the peer has read up to a position.
func (w *window) open(read uint64) bool {
	for w.n > 0 && read >= w.set[0] {
		copy(w.set[:], w.set[1:w.n])
		w.n--
	}
	return w.n < marks
}

// asked is what the reader keeps of the peer's marks.
type asked struct {
	n   atomic.Int32 // of them; written under mu
	mu  sync.Mutex
	set [marks]uint64
}

// put takes note of a mark, and then looks how far the application has got, as that looks
// for marks when it has read: neither misses the other. It reports whether a mark is to be
// answered, and which.
func (a *asked) put(mark uint64, read *atomic.Uint64) (at uint64, due bool) {
	a.mu.Lock()
	n := min(int(a.n.Load()), marks-1) // who sets more loses the last one
	a.set[n] = mark
	a.n.Store(int32(n + 1))
	a.mu.Unlock()
	return a.reached(read.Load())
}

// rest returns the last mark, if the reader has not got to it, for a peer that has written
// all.
func (a *asked) rest() (at uint64, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.n.Swap(0)
	if n == 0 {
		return 0, false
	}
	return a.set[n-1], true
}

// reached returns the last mark that the reader has got to, if there is one.
func (a *asked) reached(read uint64) (at uint64, due bool) {
	if a.n.Load() == 0 {
		return 0, false
	}
	a.mu.Lock()
	n := int(a.n.Load())
	for n > 0 && read >= a.set[0] {
		at, due = a.set[0], true
		copy(a.set[:], a.set[1:n])
		n--
	}
	a.n.Store(int32(n))
	a.mu.Unlock()
	return at, due
}
