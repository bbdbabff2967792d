//go:build linux

package ud

import (
	"errors"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// A slot is what the machine knows a message by as long as it is in flight. Its number
// says of which kind it is: that of a short message has a small buffer, that of a copied
// one or of the header of one that is not a buffer of a packet, that of a flush none. Control
// packets that do not fit into requests have buffers of their own, which come back as
// soon as they are sent: those of messages may all wait for a peer that is dead.
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

// maxPieces bounds the pieces of the caller's memory in a message.
const maxPieces = 5

// held is what is known of a slot in use.
type held struct {
	comp   *uct.Completion
	seq    uint32 // of the request that posted it last, see sendQueue
	n      int32  // bytes in the buffer
	again  bool   // the device was given the buffer more than once
	np     uint8  // pieces behind the buffer
	pieces [maxPieces]verbs.SGE
	data   [maxPieces][]byte // the same, as long as they are the caller's
}

// slots is the slots of an interface.
type slots struct {
	short   ib.SendPool
	packet  ib.SendPool
	control ib.SendPool // not open if all control packets fit into requests
	out     [2]int      // taken out of the first ones
	ample   [2]int      // that are before more are made, or only endpoints get one that have
	few     int         // in flight
	most    [2]int      // that can be
	all     int         // and that, if memory is not short

	heldShort   []held
	heldPacket  []held
	heldMark    []held
	heldControl []held
	freeMarks   []int32
}

// open makes room for the first messages. Requests have room for inline bytes.
func (s *slots) open(d *ib.Domain, inline, packet, most int) error {
	s.all, s.most = most, [2]int{most, most}
	err := errors.Join(s.short.Open(d, max(inline, 16), most), s.packet.Open(d, packet, most))
	s.share()
	return err
}

// A peer that does not answer holds what was sent to it until it is taken for dead. Lest it hold
// everything, a quarter of the slots that there are just now are for endpoints that have next to
// none in flight. More are made when the others begin to use these.

// share notes how many slots there are.
func (s *slots) share() {
	n, m := s.short.Len(), s.packet.Len()
	s.ample = [2]int{n - n/4, m - m/4}
	s.few = max(min(n, m)/256, 1)
}

// tight reports whether there are slots of some kind only for endpoints that have few.
func (s *slots) tight() bool {
	return s.out[0] >= s.ample[0] && s.short.Whole() || s.out[1] >= s.ample[1] && s.packet.Whole()
}

// openControl makes room for control packets of that size, for so many at most.
func (s *slots) openControl(d *ib.Domain, size, most int) error { return s.control.Open(d, size, most) }

func (s *slots) close() error {
	return errors.Join(s.short.Close(), s.packet.Close(), s.control.Close())
}

// of is what is known of a slot.
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

// denies reports whether an endpoint has to leave the last slots of a kind to others.
//
//go:noinline
func (s *slots) denies(kind int, from *ib.SendPool, to *flow.Endpoint) bool {
	switch {
	case to.InFlight() < s.few:
		return false
	case !from.Grow(): // as far as it can
		s.most[kind] = from.Len()
		return true
	}
	s.most[kind] = s.all
	s.share()
	return false
}

// takeShort takes a slot for n bytes at most that fit into a request.
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

// takeMark takes a slot that holds nothing but somebody who waits.
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

// pool is where the buffer of a slot is from.
func (s *slots) pool(slot int32) *ib.SendPool {
	switch kindOf(slot) {
	case shortSlot:
		return &s.short
	case controlSlot:
		return &s.control
	}
	return &s.packet
}

// buffer is the memory of a slot.
func (s *slots) buffer(slot int32) []byte { return s.pool(slot).Data(numberOf(slot)) }

// sge names the first n bytes of it.
func (s *slots) sge(slot int32, n int) verbs.SGE { return s.pool(slot).SGE(numberOf(slot), n) }

// put gives a slot back. No device may be reading it.
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

// scarce reports whether half of the buffers of some kind that there can be are out:
// peers had better acknowledge what they have.
func (s *slots) scarce() bool { return 2*s.out[0] >= s.most[0] || 2*s.out[1] >= s.most[1] }

// exhausted reports whether there is no buffer of some kind.
func (s *slots) exhausted() bool { return s.short.Empty() || s.packet.Empty() }
