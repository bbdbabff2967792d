//go:build linux

package shm

import (
	"fmt"
	"math"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rxDesc is a receive descriptor: a buffer that a peer copies a buffered message to. A descriptor
// is in a slot of the ring, spare, or kept by a handler.
type rxDesc struct {
	uct.AMDesc
	at    descriptor // location of the buffer, as peers name it
	data  []byte     // the buffer
	state descState
}

type descState uint8

const (
	descOurs    descState = iota // the descriptor is in the ring or spare
	descOffered                  // a handler that may keep the descriptor is running
	descKept                     // a handler has kept the descriptor
)

// rxPool holds the descriptors of an interface. Chunks, segments of descriptors, stay until the
// pool is closed: peers know chunks by their ids.
type rxPool struct {
	m       mapper
	owner   uct.DescOwner
	o       *options
	chunks  []*segment
	asked   float64   // size of the next chunk in multiples of UCX_MM_RX_BUFS_GROW, 0 means 1
	all     []*rxDesc // all descriptors, by index
	spare   []int32   // indexes of the unused descriptors
	kept    int       // number of descriptors that handlers keep
	stuck   bool      // growing has failed; not tried again until a descriptor is released
	closing bool      // releasing the last kept descriptor destroys the pool
}

// stride returns the distance between descriptors in a chunk, in bytes.
func (p *rxPool) stride() int { return p.o.stride() }

func (o *options) stride() int {
	return (o.seg + cacheLine - 1) &^ (cacheLine - 1)
}

// next returns the number of descriptors of the next chunk, before limits are applied.
func (p *rxPool) next() int { return int(min(float64(p.o.growBufs)*max(p.asked, 1), math.MaxInt32)) }

// grow adds a chunk with at least want descriptors, or fewer if the limits do not allow as many.
func (p *rxPool) grow(want int) error {
	n := max(p.next(), want)
	if p.o.maxBufs >= 0 {
		n = min(n, p.o.maxBufs-len(p.all))
	}
	n = min(n, max(p.o.maxChunk/p.stride(), 1))
	if n < 1 {
		return fmt.Errorf("shm: all %d receive buffers are in use: %w", len(p.all), ucs.ErrNoMemory)
	}
	s, err := p.m.create(segmentOptions{size: n * p.stride(), what: "receive"})
	if err != nil {
		return err
	}
	p.chunks, p.asked = append(p.chunks, s), min(max(p.asked, 1)*p.o.growBy, math.MaxInt32)
	p.spare, p.all = slices.Grow(p.spare, n), slices.Grow(p.all, n)
	list := make([]rxDesc, n)
	for k := range list {
		d := &list[k]
		off := k * p.stride()
		d.Owner, d.Index, d.Size = p.owner, len(p.all), p.stride()
		d.at = descriptor{seg: s.id, size: uint32(s.size), offset: uint32(off)}
		d.data = s.mem[off : off+p.o.seg : off+p.o.seg]
		p.spare = append(p.spare, int32(len(p.all)))
		p.all = append(p.all, d)
	}
	return nil
}

// available reports whether there is a spare descriptor. If there is none it tries to grow the
// pool.
func (p *rxPool) available() bool {
	if len(p.spare) > 0 {
		return true
	}
	if p.stuck {
		return false
	}
	p.stuck = p.grow(1) != nil
	return !p.stuck
}

// take removes a spare descriptor from the pool and returns its index. There must be one.
func (p *rxPool) take() int32 {
	k := p.spare[len(p.spare)-1]
	p.spare = p.spare[:len(p.spare)-1]
	return k
}

// release takes back a descriptor that was offered to a handler or kept by one.
func (p *rxPool) release(d *uct.AMDesc) {
	x := p.all[d.Index]
	switch x.state {
	case descKept:
		x.state = descOurs
		p.kept--
		p.spare = append(p.spare, int32(d.Index))
		p.stuck = false
		if p.closing && p.kept == 0 {
			p.destroy()
		}
	case descOffered:
		x.state = descOurs // released by the handler while it runs
	default:
		panic("shm: receive descriptor released twice")
	}
}

// close destroys the pool as soon as no handler keeps a descriptor.
func (p *rxPool) close() error {
	p.closing = true
	if p.kept > 0 {
		return nil
	}
	return p.destroy()
}

func (p *rxPool) destroy() (err error) {
	for _, s := range p.chunks {
		if e := p.m.destroy(s); err == nil {
			err = e
		}
	}
	p.chunks, p.spare = nil, nil
	return err
}
