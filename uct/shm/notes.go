//go:build linux

package shm

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
)

// Who sleeps until a ring has room leaves a note with its receiver, if that is of this
// library: the number of its wakeup socket, in padding of the ring's header that C UCX
// neither reads nor writes. The receiver takes the notes whenever it gives room back, or
// closes the ring, and sends each of them one datagram. A note lies until then, so it is
// worth no more than a datagram, however often its sender has slept meanwhile.
//
// What is written there is anybody's who has the ring. Notes that are lost, or never
// answered, cost their senders longestSleep. Wrong ones make the receiver send a byte to
// any socket of its network namespace whose name the kernel has chosen: as itself, and
// maybe for somebody in another namespace who could not send it (SECURITY.md).
const (
	numNotes = 8
	vacant   = 1       // place for a note; where there is zero nobody looks for any
	note     = 1 << 31 // and the number
)

// bound is the note of a socket whose name the kernel has chosen (unix_autobind in
// net/unix/af_unix.c), 0 for another one.
func bound(name string) uint32 {
	n, err := strconv.ParseUint(name, 16, 20)
	if err != nil || boundName(uint32(n)) != name {
		return 0
	}
	return note | uint32(n)
}

// boundName is the name of the socket with a number.
func boundName(n uint32) string { return fmt.Sprintf("%05x", n&(1<<20-1)) }

// noteAt is place k for notes in a ring.
func noteAt(ring []byte, k int) *uint32 { return word32(ring, notesOffset+4*k) }

// leaveNote asks the peer for a wakeup when its ring has room, which is to be looked for
// afterwards once more. It is false where nobody would answer.
func (e *endpoint) leaveNote() bool {
	mine := e.i.note
	if !e.ours || e.unwakeable || mine == 0 {
		return false
	}
	if e.fenced {
		defer fault.End(fault.Begin(), e, nil, nil)
	}
	for k := range numNotes {
		at := noteAt(e.seg.mem, k)
		n := atomic.LoadUint32(at)
		if n == mine || n == vacant && atomic.CompareAndSwapUint32(at, vacant, mine) {
			return true
		}
	}
	return false
}

// correspondents are the sockets that notes have named last.
type correspondents struct {
	list [numNotes]correspondent
	next int // place of the next new one
}

type correspondent struct {
	note uint32
	to   string
}

// socket is the name of the socket that note n names.
func (c *correspondents) socket(n uint32) string {
	for k := range c.list {
		if c.list[k].note == n {
			return c.list[k].to
		}
	}
	to := "@" + boundName(n)
	c.list[c.next] = correspondent{n, to}
	c.next = (c.next + 1) % numNotes
	return to
}

// takeNotes answers the notes in the own ring.
//
//go:noinline
func (i *iface) takeNotes() {
	for k := range numNotes {
		at := noteAt(i.rx.seg.mem, k)
		if atomic.LoadUint32(at)&note == 0 {
			continue
		}
		if n := atomic.SwapUint32(at, vacant); n&note != 0 {
			i.sock.wake(i.notes.socket(n))
		}
	}
}
