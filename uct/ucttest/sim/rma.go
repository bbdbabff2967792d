package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// access is a remote memory access.
type access struct {
	kind     accessKind
	addr     uint64
	key      uint64
	size     int
	own      []byte // data of a short or buffered put
	iov      []uct.IOV
	unpacker uct.Unpacker
	atomic   uct.AtomicOp
	x, y     uint64 // operand, or compare and swap
	r32      *uint32
	r64      *uint64
}

type accessKind uint8

const (
	accessPut accessKind = iota + 1
	accessPutIOV
	accessGet
	accessGetIOV
	accessAtomic
)

// want returns the permission that an access needs.
func (k accessKind) want() uct.Access {
	switch k {
	case accessPut, accessPutIOV:
		return uct.AccessRemotePut
	case accessGet, accessGetIOV:
		return uct.AccessRemoteGet
	}
	return uct.AccessRemoteAtomic
}

// perform executes a. It returns an error if the target refuses the access.
func (e *endpoint) perform(a *access) error {
	if a.size == 0 {
		if a.unpacker != nil {
			a.unpacker.Unpack(nil)
		}
		return nil
	}
	b, ok := e.peer.domain.memory.lookup(e.home, a.addr, a.size, a.kind.want())
	if d := e.peer.domain; !ok || a.key != d.id && !d.o.Keyless {
		return fmt.Errorf("sim: remote access of %d bytes at %#x with key %d refused: %w",
			a.size, a.addr, a.key, ucs.ErrInvalidAddr)
	}
	if a.kind == accessAtomic {
		a.update(b)
		return nil
	}
	a.move(b)
	return nil
}

// part returns the number of bytes that an access has moved when it fails in the middle.
func (a *access) part(now uint64) int { return int(now/7%64) * a.size / 64 }

// stopCopying does a part of the first access of an endpoint, as one of its two processes ends. The
// caller holds net.mu.
func (e *endpoint) stopCopying() {
	if !e.home.o.Copies || e.ops.head == nil || e.failed != nil {
		return
	}
	a := &e.ops.head.access
	if a.kind == 0 || a.kind == accessAtomic || a.size == 0 {
		return
	}
	if b, ok := e.peer.domain.memory.lookup(e.home, a.addr, a.size, a.kind.want()); ok {
		a.move(b[:a.part(e.home.now())])
	}
}

// move copies from or to the remote memory b, which may be shorter than the access.
func (a *access) move(b []byte) {
	switch a.kind {
	case accessPut:
		copy(b, a.own)
	case accessPutIOV:
		for i := range a.iov {
			b = b[copy(b, a.iov[i].Data):]
		}
	case accessGet:
		a.unpacker.Unpack(b)
	case accessGetIOV:
		for i := range a.iov {
			b = b[copy(a.iov[i].Data, b):]
		}
	}
}

// update executes the atomic operation of a on b.
func (a *access) update(b []byte) {
	var old uint64
	switch {
	case a.atomic == uct.AtomicCSwap && a.size == 4:
		old = uint64(word.CompareSwap32(b, uint32(a.x), uint32(a.y)))
	case a.atomic == uct.AtomicCSwap:
		old = word.CompareSwap64(b, a.x, a.y)
	case a.size == 4:
		v, _ := a.atomic.Do32(b, uint32(a.x)) // checked when it was accepted
		old = uint64(v)
	default:
		old, _ = a.atomic.Do64(b, a.x)
	}
	if a.r32 != nil {
		*a.r32 = uint32(old)
	}
	if a.r64 != nil {
		*a.r64 = old
	}
}

// noKey is the key of a domain that needs none.
var noKey uct.Rkey

// begin accepts an access, or returns the reason why it cannot be accepted. The caller fills in the
// other fields of o and calls push with the result late.
func (e *endpoint) begin(kind fault.Kind, how accessKind, size int, addr uint64, key *uct.Rkey, c *uct.Completion) (o *op, late int, err error) {
	if key == nil {
		if !e.home.o.Keyless {
			return nil, 0, fmt.Errorf("sim: remote access without a key: %w", ucs.ErrInvalidParam)
		}
		key = &noKey
	}
	eff, err := e.admit(kind, 0)
	if err != nil {
		return nil, 0, err
	}
	o = e.home.newOp()
	o.comp, o.err, o.tap.kind = c, eff.Fail, kind
	o.access.kind, o.access.size, o.access.addr, o.access.key = how, size, addr, key.Value
	return o, eff.Late + e.home.o.Latency, nil
}

// checkRMA returns an error for an access that can never be accepted.
func (e *endpoint) checkRMA(flag uct.IfaceFlags, n, limit int) error {
	if !e.home.attr.Flags.Has(flag) {
		return ucs.ErrUnsupported
	}
	if n < 0 || n > limit {
		return fmt.Errorf("sim: remote access of %d bytes, at most %d: %w", n, limit, ucs.ErrInvalidParam)
	}
	return nil
}

// PutShort implements uct.RMA.
func (e *endpoint) PutShort(buf []byte, raddr uint64, key *uct.Rkey) error {
	if err := e.checkRMA(uct.IfacePutShort, len(buf), e.home.attr.Put.MaxShort); err != nil {
		return err
	}
	o, late, err := e.begin(fault.PutShort, accessPut, len(buf), raddr, key, nil)
	if err != nil {
		return err
	}
	o.access.own = append(o.access.own, buf...)
	e.push(o, late)
	return nil
}

// PutBcopy implements uct.RMA.
func (e *endpoint) PutBcopy(p uct.Packer, length int, raddr uint64, key *uct.Rkey) (int, error) {
	if err := e.checkRMA(uct.IfacePutBcopy, length, e.home.attr.Put.MaxBcopy); err != nil {
		return 0, err
	}
	o, late, err := e.begin(fault.PutBcopy, accessPut, length, raddr, key, nil)
	if err != nil {
		return 0, err
	}
	a := &o.access
	if cap(a.own) < length {
		a.own = make([]byte, length)
	}
	n := p.Pack(a.own[:length])
	o.tap.by = p
	a.own, a.size = a.own[:n], n
	e.push(o, late)
	return n, nil
}

// PutZcopy implements uct.RMA.
func (e *endpoint) PutZcopy(iov []uct.IOV, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	return e.zcopy(uct.IfacePutZcopy, fault.PutZcopy, accessPutIOV, &e.home.attr.Put, iov, raddr, key, c)
}

// GetZcopy implements uct.RMA.
func (e *endpoint) GetZcopy(iov []uct.IOV, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	return e.zcopy(uct.IfaceGetZcopy, fault.GetZcopy, accessGetIOV, &e.home.attr.Get, iov, raddr, key, c)
}

func (e *endpoint) zcopy(flag uct.IfaceFlags, kind fault.Kind, how accessKind, limits *uct.RMALimits, iov []uct.IOV, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	n := uct.IOVLen(iov)
	if err := e.checkRMA(flag, n, limits.MaxZcopy); err != nil {
		return err
	}
	if err := e.checkIOV(iov, limits.MaxIOV); err != nil {
		return err
	}
	o, late, err := e.begin(kind, how, n, raddr, key, c)
	if err != nil {
		return err
	}
	o.access.iov = append(o.access.iov, iov...)
	e.push(o, late)
	return ucs.InProgress
}

// GetBcopy implements uct.RMA.
func (e *endpoint) GetBcopy(u uct.Unpacker, length int, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	if err := e.checkRMA(uct.IfaceGetBcopy, length, e.home.attr.Get.MaxBcopy); err != nil {
		return err
	}
	o, late, err := e.begin(fault.GetBcopy, accessGet, length, raddr, key, c)
	if err != nil {
		return err
	}
	o.access.unpacker, o.tap.by = u, u
	e.push(o, late)
	return ucs.InProgress
}
