package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// checkAM refuses an active message that can never be sent.
func (e *endpoint) checkAM(flag uct.IfaceFlags, id uct.AMID, n, limit int) error {
	switch {
	case !e.home.attr.Flags.Has(flag):
		return ucs.ErrUnsupported
	case id >= uct.MaxAMIDs:
		return fmt.Errorf("sim: active message id %d: %w", id, ucs.ErrInvalidParam)
	case n > limit:
		return fmt.Errorf("sim: active message of %d bytes, at most %d: %w", n, limit, ucs.ErrInvalidParam)
	}
	return nil
}

// AMShort implements uct.Endpoint.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, flags uct.SendFlags, c *uct.Completion) error {
	if err := e.checkAM(uct.IfaceAMShort, id, 8+len(payload), e.home.attr.AM.MaxShort); err != nil {
		return err
	}
	eff, err := e.admit(fault.AMShort, id)
	if err != nil {
		return err
	}
	p := e.home.net.packet(8 + len(payload))
	binary.LittleEndian.PutUint64(p.buf, header)
	copy(p.buf[8:], payload)
	return e.post(p, fault.AMShort, id, owner(c), eff, flags, c)
}

// AMShortIOV implements uct.Endpoint.
func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, flags uct.SendFlags, c *uct.Completion) error {
	if err := e.checkAM(uct.IfaceAMShort, id, uct.IOVLen(iov), e.home.attr.AM.MaxShort); err != nil {
		return err
	}
	eff, err := e.admit(fault.AMShort, id)
	if err != nil {
		return err
	}
	p := e.home.net.packet(uct.IOVLen(iov))
	at := p.buf
	for i := range iov {
		at = at[copy(at, iov[i].Data):]
	}
	return e.post(p, fault.AMShort, id, owner(c), eff, flags, c)
}

// AMBcopy implements uct.Endpoint.
func (e *endpoint) AMBcopy(id uct.AMID, packer uct.Packer, flags uct.SendFlags, c *uct.Completion) (int, error) {
	if err := e.checkAM(uct.IfaceAMBcopy, id, 0, 0); err != nil {
		return 0, err
	}
	eff, err := e.admit(fault.AMBcopy, id)
	if err != nil {
		return 0, err
	}
	p := e.home.net.packet(e.home.attr.AM.MaxBcopy)
	n := packer.Pack(p.buf)
	p.buf = p.buf[:n]
	return n, e.post(p, fault.AMBcopy, id, packer, eff, flags, c)
}

// AMZcopy implements uct.Endpoint.
func (e *endpoint) AMZcopy(id uct.AMID, hdr uct.Packer, iov []uct.IOV, flags uct.SendFlags, c *uct.Completion) error {
	a := &e.home.attr.AM
	if err := e.checkAM(uct.IfaceAMZcopy, id, uct.IOVLen(iov), a.MaxZcopy); err != nil {
		return err
	}
	if err := e.checkIOV(iov, a.MaxIOV); err != nil {
		return err
	}
	eff, err := e.admit(fault.AMZcopy, id)
	if err != nil {
		return err
	}
	p := e.home.net.packet(a.MaxZcopyHdr)
	n := 0
	if hdr != nil {
		n = hdr.Pack(p.buf)
	}
	p.buf = p.buf[:n]
	if n += uct.IOVLen(iov); n > a.MaxZcopy {
		return fmt.Errorf("sim: active message of %d bytes with its header, at most %d: %w", n, a.MaxZcopy, ucs.ErrInvalidParam)
	}
	p.iov = append(p.iov, iov...)
	p.op = e.home.newOp()
	return e.post(p, fault.AMZcopy, id, hdr, eff, flags, c)
}

// post sends the message p, or loses it if the injected fault eff says so.
func (e *endpoint) post(p *packet, op fault.Kind, id uct.AMID, by any, eff fault.Effect, flags uct.SendFlags, c *uct.Completion) error {
	if f := e.home.o.Forge; f != nil {
		f(e.home.o.Place, id, p.buf)
	}
	e.tapSent(p, op, id, by, eff.Drop != nil || eff.Fail != nil)
	o := p.op
	if o == nil && (eff.Late > 0 || eff.Fail != nil || eff.Drop != nil || e.home.o.Buffered && flags&uct.SendNow == 0) {
		o = e.home.newOp()
	}
	if o != nil {
		o.comp, o.err = c, eff.Fail
		e.push(o, eff.Late)
	}
	if eff.Drop != nil || eff.Fail != nil {
		e.home.net.recycle(p)
	} else {
		p.from, p.id, p.cut = e, id, eff.Cut
		e.dispatch(p)
	}
	if o != nil {
		return ucs.InProgress
	}
	return nil
}

// checkIOV refuses a list that is too long or lacks handles.
func (e *endpoint) checkIOV(iov []uct.IOV, limit int) error {
	if len(iov) > limit {
		return fmt.Errorf("sim: list of %d entries, at most %d: %w", len(iov), limit, ucs.ErrInvalidParam)
	}
	if e.home.domain.attr.Flags&uct.MDFlagNeedMemh == 0 {
		return nil
	}
	for k := range iov {
		r, ok := iov[k].Mem.(*kit.Region)
		if len(iov[k].Data) > 0 && (!ok || !e.home.domain.memory.holds(r, iov[k].Data)) {
			return fmt.Errorf("sim: entry %d is not registered: %w", k, ucs.ErrInvalidParam)
		}
	}
	return nil
}
