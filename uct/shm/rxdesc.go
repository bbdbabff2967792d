//go:build linux

package shm

import (
	"fmt"
	"math"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rxDesc is a receive descriptor: memory that a peer copies a buffered message
// to. It is in a slot of the ring, spare, or kept by a handler.
type rxDesc struct {
	uct.AMDesc
	at    descriptor // as peers find it
	data  []byte     // the payload's place
	state descState
}

type descState uint8

const (
	descOurs    descState = iota // in the ring or spare
	descOffered                  // a handler that may keep it is running
	descKept                     // by a handler
)

// rxPool holds the descriptors of an interface. Chunks stay until it is closed:
// peers know them by their ids.
type rxPool struct {
	m       mapper
	owner   uct.DescOwner
	o       *options
	chunks  []*segment
	asked   float64 // how many times UCX_MM_RX_BUFS_GROW the next one is to have, 0 as 1
	all     []*rxDesc
	spare   []int32
	kept    int
	stuck   bool // growing has failed, or is not allowed; not tried again until something is released
	closing bool // the interface is closed; the last descriptor kept ends it
}

// stride is the distance between descriptors in a chunk.
func (p *rxPool) stride() int { return p.o.stride() }

func (o *options) stride() int {
	return (o.seg + cacheLine - 1) &^ (cacheLine - 1)
}

// next is how many descriptors the next chunk is to have, unless it is limited.
func (p *rxPool) next() int { return int(min(float64(p.o.growBufs)*max(p.asked, 1), math.MaxInt32)) }

// grow adds a chunk of descriptors, want of them if that fits a chunk.
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

// available reports whether there is a spare descriptor, and tries to get more.
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

// take takes a spare descriptor; there must be one.
func (p *rxPool) take() int32 {
	k := p.spare[len(p.spare)-1]
	p.spare = p.spare[:len(p.spare)-1]
	return k
}

// release takes back a descriptor that a handler had.
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
		x.state = descOurs // by the handler itself
	default:
		panic("shm: receive descriptor released twice")
	}
}

// close ends the pool as soon as no handler keeps a descriptor.
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
