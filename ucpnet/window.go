package ucpnet

import (
	"sync"
	"sync/atomic"
)

// Flow control. Bytes that the peer has not read occupy its memory. Nothing else bounds that
// memory: over shared memory the endpoint would fail, and over tcp the peer would stop
// reading the connection, including the notes. So the writer counts the cost of its bytes at
// the peer, sets a mark behind each stretch, and goes on while at most one stretch behind the
// last mark that was read is unread. The reader answers a mark when it reaches it, so
// exchanges of small messages take few notes.
//
// Peers that know no notes have only the flow control of package ucp.

const (
	stretch = 256 << 10 // what is sent between two marks, as it costs
	marks   = 2         // of stretches that may be unread

	// The cost of an unread packet at the peer: the buffer of the transport that holds it,
	// which may be up to 8 times as large as the packet but not larger than the transport's
	// usual buffers, and the bookkeeping of ucp.
	packetWaste = 8
	packetSize  = 8 << 10
	packetCost  = 256
)

// cost is what n bytes in one packet cost.
func cost(n int) int { return max(n, min(n*packetWaste, packetSize)) + packetCost }

// window is the writer's side of the flow control.
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

// asked holds the peer's marks at the reader.
type asked struct {
	n   atomic.Int32 // of them; written under mu
	mu  sync.Mutex
	set [marks]uint64
}

// put stores a mark, and then checks how far the application has read. The application reads
// first and then checks for marks, so one of the two finds the mark reached. It returns the
// mark to be answered, if there is one.
func (a *asked) put(mark uint64, read *atomic.Uint64) (at uint64, due bool) {
	a.mu.Lock()
	n := min(int(a.n.Load()), marks-1) // a peer that sets more loses the last one
	a.set[n] = mark
	a.n.Store(int32(n + 1))
	a.mu.Unlock()
	return a.reached(read.Load())
}

// rest returns the last mark that the reader has not reached, for a peer that has written its
// last byte.
func (a *asked) rest() (at uint64, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.n.Swap(0)
	if n == 0 {
		return 0, false
	}
	return a.set[n-1], true
}

// reached returns the last mark that the reader has reached, if there is one.
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
