//go:build linux

package memory

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// SendPool is a pool of registered buffers for data that is copied before it is sent. It
// grows as needed. It belongs to one goroutine.
type SendPool struct {
	space  *Space
	size   int // of a buffer, in bytes
	most   int // limit on the number of buffers
	step   int // number of buffers in the next chunk
	chunks []chunk
	slots  []sendSlot
	free   []int32
	short  shortage
}

type sendSlot struct {
	data []byte
	sge  verbs.SGE // describes all of data
}

// firstSlots is the number of buffers that a pool begins with.
const firstSlots = 32

// Open prepares a pool of buffers of size bytes. The parameter most limits their number.
func (p *SendPool) Open(s *Space, size, most int) error {
	p.space, p.size, p.most, p.step = s, size, max(most, 1), firstSlots
	return p.grow()
}

// grow adds a chunk of p.step buffers, or of fewer if the limit p.most allows no more.
func (p *SendPool) grow() error {
	n := min(p.step, p.most-len(p.slots))
	if n <= 0 {
		return errAllBuffers
	}
	c, err := nextChunk(p.space, p.chunks, n*stride(p.size))
	if err != nil {
		return err
	}
	p.step *= 2
	p.chunks = append(p.chunks, c)
	for k := range n {
		off := k * stride(p.size)
		p.free = append(p.free, int32(len(p.slots)))
		p.slots = append(p.slots, sendSlot{c.mem[off : off+p.size : off+p.size], c.mr.SGE(off, p.size)})
	}
	return nil
}

var errAllBuffers = fmt.Errorf("ib: all buffers are in use: %w", ucs.ErrNoResource)

// Take takes a buffer out of the pool; ok is false if all are in use.
func (p *SendPool) Take() (slot int32, ok bool) {
	if len(p.free) == 0 && !p.Grow() {
		return 0, false
	}
	slot = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return slot, true
}

// Grow allocates more buffers and reports whether it has. After a failure it does not try in
// some of the next calls (shortage).
//
//go:noinline
func (p *SendPool) Grow() bool {
	if !p.short.mayTry() {
		return false
	}
	p.short.tried(p.grow())
	return p.short.why == nil
}

// Empty reports whether all buffers are in use and no more could be allocated.
func (p *SendPool) Empty() bool { return len(p.free) == 0 && p.short.why != nil }

// AtLimit reports whether the pool has all the buffers that it may have, or could not allocate more
// when it last tried.
func (p *SendPool) AtLimit() bool { return len(p.slots) == p.most || p.short.why != nil }

// Scarce reports whether more than half of all available buffers are in use.
func (p *SendPool) Scarce() bool { return 2*len(p.free) < len(p.slots) && p.AtLimit() }

// Data returns the memory of a buffer.
func (p *SendPool) Data(slot int32) []byte { return p.slots[slot].data }

// SGE describes the first n bytes of a buffer.
func (p *SendPool) SGE(slot int32, n int) verbs.SGE {
	s := p.slots[slot].sge
	s.Length = uint32(n)
	return s
}

// Put returns a buffer to the pool. No device may be reading it.
func (p *SendPool) Put(slot int32) { p.free = append(p.free, slot) }

// Free returns the number of unused buffers.
func (p *SendPool) Free() int { return len(p.free) }

// Len returns the number of buffers.
func (p *SendPool) Len() int { return len(p.slots) }

// Close releases the memory. No device may be reading it.
func (p *SendPool) Close() (err error) {
	for k := range p.chunks {
		err = errors.Join(err, p.chunks[k].free())
	}
	*p = SendPool{}
	return err
}
