//go:build linux

package shm

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
)

// A sender that sleeps until a ring has room leaves a note with the ring's receiver, if the
// receiver uses this library. The note is the number of the sender's wakeup socket, in padding
// of the ring's header that C UCX neither reads nor writes. Whenever the receiver gives room
// back, or closes the ring, it takes the notes and sends one datagram for each. A note stays
// until then, so it causes no more than one datagram, however often its sender has slept
// meanwhile.
//
// Every process that has the ring mapped can write notes. A note that is lost, or never answered,
// delays its sender by longestSleep at most. A wrong note makes the receiver send a byte to any
// socket of its network namespace whose name the kernel has chosen. The receiver sends that byte
// with its own rights, possibly for a process in another namespace that could not send it
// (SECURITY.md).
const (
	numNotes = 8       // slots for notes in a ring
	vacant   = 1       // free slot; 0 is in the slots of a receiver that reads no notes
	note     = 1 << 31 // flag of a slot with a note; the other bits are the socket's number
)

// bound returns the note for a socket whose name the kernel has chosen (unix_autobind in
// net/unix/af_unix.c), 0 for any other name.
func bound(name string) uint32 {
	n, err := strconv.ParseUint(name, 16, 20)
	if err != nil || boundName(uint32(n)) != name {
		return 0
	}
	return note | uint32(n)
}

// boundName returns the name of the socket with number n.
func boundName(n uint32) string { return fmt.Sprintf("%05x", n&(1<<20-1)) }

// noteAt returns slot k of the part of a ring in which peers that wait for room leave notes.
func noteAt(ring []byte, k int) *uint32 { return word32(ring, notesOffset+4*k) }

// leaveNote asks the peer for a wakeup when its ring has room. Afterwards the caller must check for
// room once more. leaveNote returns false if no wakeup would come, or every slot for notes is
// taken.
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

// wakeNames caches the names of the sockets to which the last notes were answered.
type wakeNames struct {
	list [numNotes]correspondent
	next int // index in list for the next new name
}

type correspondent struct {
	note uint32
	to   string
}

// socket returns the name of the socket that note n stands for.
func (c *wakeNames) socket(n uint32) string {
	for k := range c.list {
		if c.list[k].note == n {
			return c.list[k].to
		}
	}
	to := boundName(n)
	c.list[c.next] = correspondent{n, to}
	c.next = (c.next + 1) % numNotes
	return to
}

// takeNotes removes the notes from the interface's own ring and answers them.
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
