package ucpnet

import (
	"sync"
	"sync/atomic"
)

// Flow control. Bytes that the peer has not read occupy its memory. Nothing else bounds that
// memory: over shared memory the endpoint would fail, and over tcp the peer would stop reading the
// connection, including the notes. So the writer counts the memory that its bytes cost the peer,
// and sends a mark (noteMark) after each stretch, which is a cost of 256 KiB. It stops while two
// marks are unanswered. The reader answers a mark when it has read the bytes up to the mark, so
// exchanges of small messages need few notes.
//
// Peers that do not use this package have only the flow control of package ucp.

const (
	stretch = 256 << 10 // cost of the bytes between two marks, in bytes of the peer's memory
	marks   = 2         // number of unanswered marks at which the writer stops

	// An unread packet costs the peer the transport's buffer that holds it, and the bookkeeping of
	// ucp, packetCost bytes. The buffer may be up to packetWaste times as large as the packet, but
	// not larger than packetSize, the size of the transports' usual buffers.
	packetWaste = 8
	packetSize  = 8 << 10
	packetCost  = 256
)

// cost returns the memory, in bytes, that n unread bytes in one packet cost the peer.
func cost(n int) int { return max(n, min(n*packetWaste, packetSize)) + packetCost }

// window is the writer's side of the flow control.
type window struct {
	at    uint64        // number of bytes sent
	spent int           // cost of the bytes sent since the last mark
	set   [marks]uint64 // positions of the unanswered marks, in ascending order
	n     int           // number of marks in set
}

// mark adds the cost of sent bytes. It reports whether the writer must send a mark at position w.at
// after them.
func (w *window) mark(cost int) bool {
	if w.spent += cost; w.spent < stretch || w.n == marks {
		return false
	}
	w.spent = 0
	w.set[w.n] = w.at
	w.n++
	return true
}

// last returns the position of the last unanswered mark, 0 if there is none.
func (w *window) last() uint64 {
	if w.n == 0 {
		return 0
	}
	return w.set[w.n-1]
}

// open removes the marks that the peer has reached, given the number of bytes that the peer has
// read, and reports whether more bytes may be sent.
func (w *window) open(read uint64) bool {
	for w.n > 0 && read >= w.set[0] {
		copy(w.set[:], w.set[1:w.n])
		w.n--
	}
	return w.n < marks
}

// readerMarks holds, at the reader, the peer's marks that are not answered.
type readerMarks struct {
	n   atomic.Int32 // number of marks in set; written under mu
	mu  sync.Mutex
	set [marks]uint64
}

// put stores a mark of the peer, and then checks how far the application has read. A reading
// goroutine first counts the bytes and then checks for marks, so one of the two finds a mark that
// is reached. put returns the position of the mark to answer, if due is true.
func (a *readerMarks) put(mark uint64, read *atomic.Uint64) (at uint64, due bool) {
	a.mu.Lock()
	n := min(int(a.n.Load()), marks-1) // the last mark of a peer that sets too many is overwritten
	a.set[n] = mark
	a.n.Store(int32(n + 1))
	a.mu.Unlock()
	return a.reached(read.Load())
}

// rest removes all marks and returns the position of the last one. due is false if there is none.
// It is called when the peer has written its last byte, because then all marks are answered.
func (a *readerMarks) rest() (at uint64, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.n.Swap(0)
	if n == 0 {
		return 0, false
	}
	return a.set[n-1], true
}

// reached removes the marks that the application has reached, given the number of bytes that it has
// read, and returns the position of the last one. due is false if there is none.
func (a *readerMarks) reached(read uint64) (at uint64, due bool) {
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
