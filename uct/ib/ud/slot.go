//go:build linux

package ud

import (
	"errors"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// slotKind is the kind of a slot, a part of the slot's number. A slot is the number by which the
// state machine names a message in flight. The slot of a short message has a small buffer. The slot
// of a copied message, or of the header of a message that is not copied, has a buffer of packet
// size. The slot of a flush has no buffer. Control packets that are too long for inline data have
// buffers of their own, which are free again as soon as the packets are sent, because the buffers
// of messages may all wait for a dead peer.
type slotKind int32

const (
	shortSlot slotKind = iota << 28
	packetSlot
	markSlot
	controlSlot
	kindMask slotKind = 3 << 28
)

func kindOf(slot int32) slotKind { return slotKind(slot) & kindMask }
func numberOf(slot int32) int32  { return slot &^ int32(kindMask) }

// maxPieces is the largest number of pieces of the caller's memory in a message.
const maxPieces = 5

// held is the state of a slot in use.
type held struct {
	comp   *uct.Completion
	seq    uint32 // number of the last request that posted the slot, see sendQueue
	n      int32  // bytes in the buffer
	again  bool   // the device was given the buffer more than once
	np     uint8  // number of pieces sent behind the buffer
	pieces [maxPieces]verbs.SGE
	data   [maxPieces][]byte // the same pieces, as the caller's memory
}

// slots holds the slots of an interface. The arrays are indexed by pool: 0 is short, 1 is packet.
type slots struct {
	short   memory.SendPool
	packet  memory.SendPool
	control memory.SendPool // not open if all control packets fit into inline data
	out     [2]int          // slots in use
	ample   [2]int          // slots in use at which the pool must grow, or the rest is reserved
	few     int             // an endpoint with fewer packets in flight may use the reserved slots
	most    [2]int          // upper limit on slots, as far as memory allows
	all     int             // upper limit on slots if memory is not short

	heldShort   []held
	heldPacket  []held
	heldMark    []held
	heldControl []held
	freeMarks   []int32
}

// open opens the pools of messages. The parameter inline is the size of inline data, packet is the
// size of a packet, and most is the largest number of buffers of each pool.
func (s *slots) open(d *memory.Space, inline, packet, most int) error {
	s.all, s.most = most, [2]int{most, most}
	err := errors.Join(s.short.Open(d, max(inline, 16), most), s.packet.Open(d, packet, most))
	s.share()
	return err
}

// Messages to a peer that does not answer keep their slots until the peer is declared dead. To keep
// such a peer from using all slots, a quarter of the slots that exist is reserved for endpoints
// with few packets in flight. A pool grows when other endpoints reach its reserved part.

// share computes the reserved parts from the current sizes of the pools.
func (s *slots) share() {
	n, m := s.short.Len(), s.packet.Len()
	s.ample = [2]int{n - n/4, m - m/4}
	s.few = max(min(n, m)/256, 1)
}

// tight reports whether a pool that cannot grow has only reserved slots left.
func (s *slots) tight() bool {
	return s.out[0] >= s.ample[0] && s.short.AtLimit() || s.out[1] >= s.ample[1] && s.packet.AtLimit()
}

// openControl opens the pool of control packets, with buffers of size bytes; the parameter most
// limits their number.
func (s *slots) openControl(d *memory.Space, size, most int) error {
	return s.control.Open(d, size, most)
}

func (s *slots) close() error {
	return errors.Join(s.short.Close(), s.packet.Close(), s.control.Close())
}

// of returns the state of a slot.
func (s *slots) of(slot int32) *held {
	n := numberOf(slot)
	switch kindOf(slot) {
	case shortSlot:
		return &s.heldShort[n]
	case packetSlot:
		return &s.heldPacket[n]
	case controlSlot:
		return &s.heldControl[n]
	}
	return &s.heldMark[n]
}

// denies reports whether an endpoint is denied the reserved slots of a pool. If the endpoint has too
// many packets in flight for them, denies tries to grow the pool first.
//
//go:noinline
func (s *slots) denies(kind int, from *memory.SendPool, to *flow.Endpoint) bool {
	switch {
	case to.InFlight() < s.few:
		return false
	case !from.Grow(): // the pool has its largest size
		s.most[kind] = from.Len()
		return true
	}
	s.most[kind] = s.all
	s.share()
	return false
}

// takeShort takes a slot for a message that fits into inline data.
func (s *slots) takeShort(to *flow.Endpoint) (slot int32, ok bool) {
	if s.out[0] >= s.ample[0] && s.denies(0, &s.short, to) {
		return 0, false
	}
	if slot, ok = s.short.Take(); !ok {
		s.most[0] = s.short.Len()
		return 0, false
	}
	if int(slot) >= len(s.heldShort) {
		s.heldShort = grow(s.heldShort, s.short.Len())
		s.most[0] = s.all
		s.share()
	}
	s.out[0]++
	return slot, true
}

// takePacket takes a slot for a packet.
func (s *slots) takePacket(to *flow.Endpoint) (slot int32, ok bool) {
	if s.out[1] >= s.ample[1] && s.denies(1, &s.packet, to) {
		return 0, false
	}
	if slot, ok = s.packet.Take(); !ok {
		s.most[1] = s.packet.Len()
		return 0, false
	}
	if int(slot) >= len(s.heldPacket) {
		s.heldPacket = grow(s.heldPacket, s.packet.Len())
		s.most[1] = s.all
		s.share()
	}
	s.out[1]++
	return slot | int32(packetSlot), true
}

// takeControl takes a slot for a control packet.
func (s *slots) takeControl() (slot int32, ok bool) {
	if slot, ok = s.control.Take(); !ok {
		return 0, false
	}
	if int(slot) >= len(s.heldControl) {
		s.heldControl = grow(s.heldControl, s.control.Len())
	}
	return slot | int32(controlSlot), true
}

// takeMark takes a slot without a buffer, which holds only a completion.
func (s *slots) takeMark() int32 {
	if n := len(s.freeMarks); n > 0 {
		slot := s.freeMarks[n-1]
		s.freeMarks = s.freeMarks[:n-1]
		return slot
	}
	s.heldMark = append(s.heldMark, held{})
	return int32(len(s.heldMark)-1) | int32(markSlot)
}

//go:noinline
func grow(list []held, n int) []held { return append(list, make([]held, n-len(list))...) }

// pool returns the pool of a slot's buffer.
func (s *slots) pool(slot int32) *memory.SendPool {
	switch kindOf(slot) {
	case shortSlot:
		return &s.short
	case controlSlot:
		return &s.control
	}
	return &s.packet
}

// buffer returns the memory of a slot.
func (s *slots) buffer(slot int32) []byte { return s.pool(slot).Data(numberOf(slot)) }

// sge describes the first n bytes of a slot's buffer.
func (s *slots) sge(slot int32, n int) verbs.SGE { return s.pool(slot).SGE(numberOf(slot), n) }

// put frees a slot. No device may be reading its buffer.
func (s *slots) put(slot int32) {
	h := s.of(slot)
	h.comp, h.again, h.seq = nil, false, 0
	if h.np > 0 {
		h.np = 0
		clear(h.data[:])
	}
	switch kindOf(slot) {
	case shortSlot:
		s.short.Put(slot)
		s.out[0]--
	case packetSlot:
		s.packet.Put(numberOf(slot))
		s.out[1]--
	case controlSlot:
		s.control.Put(numberOf(slot))
	default:
		s.freeMarks = append(s.freeMarks, slot)
	}
}

// scarce reports whether half of the possible buffers of a pool are in use. Messages then ask their
// peers for acknowledgements.
func (s *slots) scarce() bool { return 2*s.out[0] >= s.most[0] || 2*s.out[1] >= s.most[1] }

// exhausted reports whether a pool has no free buffer and cannot grow.
func (s *slots) exhausted() bool { return s.short.Empty() || s.packet.Empty() }
