//go:build linux

package ud

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/kit"
)

// Active messages. A message is a packet with the state machine's header, followed by the payload.

const headerLen = wire.HeaderLen

// send sends the message in a slot; admit must have returned nil. n is the number of bytes in the
// slot's buffer, including room for the header at its beginning. If ask is true, the peer is asked
// for an acknowledgement; if must is true, the device is asked for a completion.
func (e *endpoint) send(slot int32, h *held, id uct.AMID, n int, ask, must bool) error {
	i, c := e.iface, e.conn
	total := n
	for k := range h.pieces[:h.np] {
		total += int(h.pieces[k].Length)
	}
	hdr, ok := c.flow.Send(slot, uint8(id), i.flow.Large(total), ask || i.slots.scarce())
	if !ok {
		i.slots.put(slot)
		return ucs.ErrNoResource
	}
	hdr.Store(i.slots.buffer(slot))
	h.n = int32(n)
	h.seq, ok = i.emit(c, slot, h, i.sq.flags(must || !i.retired.empty()))
	i.alarm.due = true
	if !ok && e.failed != nil {
		return e.failed
	}
	return nil
}

// AMShort implements uct.Endpoint.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	i := e.iface
	n := headerLen + 8 + len(payload)
	if id >= uct.MaxAMIDs || n > headerLen+i.attr.AM.MaxShort {
		return ib.RefuseAM("ud", id, n-headerLen, i.attr.AM.MaxShort)
	}
	if err := e.admit(); err != nil {
		return err
	}
	slot, ok := i.slots.takeShort(e.conn.flow)
	if !ok {
		return ucs.ErrNoResource
	}
	buf := i.slots.short.Data(slot)
	binary.LittleEndian.PutUint64(buf[headerLen:], header)
	copy(buf[headerLen+8:], payload)
	return e.send(slot, &i.slots.heldShort[slot], id, n, false, false)
}

// AMShortIOV implements uct.Endpoint.
func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, _ uct.SendFlags, _ *uct.Completion) error {
	i := e.iface
	if n := uct.IOVLen(iov); id >= uct.MaxAMIDs || n > i.attr.AM.MaxShort {
		return ib.RefuseAM("ud", id, n, i.attr.AM.MaxShort)
	}
	if err := e.admit(); err != nil {
		return err
	}
	slot, ok := i.slots.takeShort(e.conn.flow)
	if !ok {
		return ucs.ErrNoResource
	}
	buf := i.slots.short.Data(slot)
	n := headerLen
	for k := range iov {
		n += copy(buf[n:], iov[k].Data)
	}
	return e.send(slot, &i.slots.heldShort[slot], id, n, false, false)
}

// AMBcopy implements uct.Endpoint.
func (e *endpoint) AMBcopy(id uct.AMID, packer uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	i := e.iface
	if id >= uct.MaxAMIDs {
		return 0, kit.ErrAMID(id)
	}
	if err := e.admit(); err != nil {
		return 0, err
	}
	slot, ok := i.slots.takePacket(e.conn.flow)
	if !ok {
		return 0, ucs.ErrNoResource
	}
	n := packer.Pack(i.slots.buffer(slot)[headerLen:])
	if headerLen+n > e.conn.most {
		i.slots.put(slot)
		return 0, refuseLength(e, n)
	}
	return n, e.send(slot, i.slots.of(slot), id, headerLen+n, false, false)
}

// AMZcopy implements uct.Endpoint. The peer is asked to acknowledge at once,
// because the caller waits for its memory.
func (e *endpoint) AMZcopy(id uct.AMID, hdr uct.Packer, iov []uct.IOV, _ uct.SendFlags, c *uct.Completion) error {
	i := e.iface
	a := &i.attr.AM
	n := uct.IOVLen(iov)
	switch {
	case !i.attr.Flags.Has(uct.IfaceAMZcopy):
		return ucs.ErrUnsupported
	case id >= uct.MaxAMIDs || n > a.MaxZcopy:
		return ib.RefuseAM("ud", id, n, a.MaxZcopy)
	case len(iov) > a.MaxIOV:
		return ib.RefuseIOV("ud", len(iov), a.MaxIOV)
	}
	if err := e.admit(); err != nil {
		return err
	}
	slot, ok := i.slots.takePacket(e.conn.flow)
	if !ok {
		return ucs.ErrNoResource
	}
	h := i.slots.of(slot)
	pieces, err := i.Domain.Gather(h.pieces[:0], iov)
	if err != nil {
		i.slots.put(slot)
		return err
	}
	h.np = uint8(len(pieces))
	for k := range iov {
		h.data[k] = iov[k].Data
	}
	head := headerLen
	if hdr != nil {
		head += hdr.Pack(i.slots.buffer(slot)[headerLen : headerLen+a.MaxZcopyHdr])
	}
	if head+n > e.conn.most {
		i.slots.put(slot)
		return refuseLength(e, head-headerLen+n)
	}
	h.comp = c
	if err := e.send(slot, h, id, head, true, true); err != nil {
		return err
	}
	return ucs.InProgress
}

//go:noinline
func refuseLength(e *endpoint, n int) error {
	return fmt.Errorf("ud: active message of %d bytes, to %v at most %d: %w", n, &e.conn.device, e.conn.most-headerLen, ucs.ErrInvalidParam)
}
