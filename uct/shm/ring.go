//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ring is the receive side: an interface's own ring. The receiver reads only the words that
// it needs from shared memory, and trusts nothing else there.
type ring struct {
	elems    []byte
	pos      int    // position of the next element in elems
	phase    uint32 // flagPhase of the next element when it is published
	elem     int    // size of an element
	read     uint64 // messages received
	release  uint64 // the tail is published when these bits of read are zero
	tail     *uint64
	head     *uint64
	addrLen  *uint32
	n        int     // number of elements
	released bool    // next has published the tail
	slots    []int32 // index in rxPool.all of the descriptor of each element
	seg      *segment
}

// viewRing returns a ring whose fields point into the segment s. slots are the descriptors of its
// elements.
func viewRing(s *segment, o *options, slots []int32) ring {
	elems := s.mem[elemsOffset : elemsOffset+len(slots)*o.elem]
	return ring{
		elems:   elems,
		elem:    o.elem,
		release: o.release,
		tail:    word64(s.mem, tailOffset),
		head:    word64(s.mem, headOffset),
		addrLen: word32(s.mem, addrLenOffset),
		n:       len(slots),
		slots:   slots,
		seg:     s,
	}
}

// fill initialises a new ring, whose memory is zero, for its senders.
func (r *ring) fill(pid int, wakeup string, pool *rxPool) {
	b := r.seg.mem
	binary.LittleEndian.PutUint32(b[pidOffset:], uint32(pid))
	binary.LittleEndian.PutUint32(b[markOffset:], mark)
	for k := range numNotes {
		*noteAt(b, k) = vacant
	}
	*r.addrLen = uint32(putSockaddr(b[addrOffset:addrOffset+sockaddrLen], wakeup))
	for k, d := range r.slots {
		e := r.elems[k*r.elem : (k+1)*r.elem]
		e[0] = flagPhase
		pool.all[d].at.put(e)
	}
}

// putSockaddr writes the abstract address name as a sockaddr_un and returns its
// length.
func putSockaddr(b []byte, name string) int {
	binary.NativeEndian.PutUint16(b, unix.AF_UNIX)
	b[2] = 0
	return 3 + copy(b[3:], name)
}

// parseSockaddr reads an abstract address from the first n bytes of a sockaddr_un. Other
// addresses are refused: C UCX binds only abstract ones, and a path could name any process's
// socket.
func parseSockaddr(b []byte, n uint32) (name string, ok bool) {
	if n < 4 || n > sockaddrLen || binary.NativeEndian.Uint16(b) != unix.AF_UNIX || b[2] != 0 {
		return "", false
	}
	return string(b[3:n]), true
}

// first returns the first minElemSize bytes of the next element. No element is shorter.
func (r *ring) first() *[minElemSize]byte { return elementAt(r.elems, r.pos) }

// word loads the first word of the next element.
func (r *ring) word() uint32 { return atomic.LoadUint32(firstWord(r.first())) }

// next moves on to the next element. When the number of received messages is a multiple of
// release+1, it gives the received elements back to senders.
func (r *ring) next() {
	r.pos += r.elem
	if r.pos == len(r.elems) {
		r.pos = 0
		r.phase ^= flagPhase
	}
	r.read++
	if r.read&r.release == 0 {
		raceSent()
		atomic.StoreUint64(r.tail, r.read)
		r.released = true
	}
}

// restoreTail corrects the tail, and reports whether the tail was wrong. Only the receiver may
// write the tail. With a wrong tail a sender could regard the ring as full forever.
func (r *ring) restoreTail() bool {
	want := r.read &^ r.release
	if atomic.LoadUint64(r.tail) == want {
		return false
	}
	atomic.StoreUint64(r.tail, want)
	return true
}

// claimed returns the number of elements that senders have claimed and that have not
// been received.
func (r *ring) claimed() uint64 { return atomic.LoadUint64(r.head)&^armed - r.read }

// arm requests a wakeup from the next sender. It returns false when an element has been claimed
// that was not received.
func (r *ring) arm() bool {
	h := atomic.LoadUint64(r.head)
	return h&^armed == r.read && atomic.CompareAndSwapUint64(r.head, h, h|armed)
}

// close marks the ring as closed for endpoints of this library. To other senders the ring
// looks as before: messages that they still send are lost.
func (r *ring) close() {
	atomic.StoreUint32(r.addrLen, 0)
	for {
		h := atomic.LoadUint64(r.head)
		if atomic.CompareAndSwapUint64(r.head, h, h&^armed) {
			return
		}
	}
}

// markClosed closes the ring for all senders, to which it looks full from then on. It returns the
// number of elements that were claimed before and have not been received.
func (r *ring) markClosed() uint64 {
	atomic.StoreUint32(r.addrLen, 0)
	for {
		h := atomic.LoadUint64(r.head)
		if atomic.CompareAndSwapUint64(r.head, h, h&^armed+beyond) {
			return h&^armed - r.read
		}
	}
}

// String describes the ring for the log.
func (r *ring) String() string {
	return fmt.Sprintf("%d elements of %d bytes, %d received", r.n, r.elem, r.read)
}
