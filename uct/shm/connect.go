//go:build linux

package shm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// lookAt returns the ring that the addresses name: the cached ring (attach.go) if it is still valid,
// otherwise the result of connect. The caller owns the attachment. The function may is as in
// connect.
func (i *iface) lookAt(dev, addr []byte, may func(uct.Process) bool) (*txRing, error) {
	if err := i.domain.device.ReachAddr(dev); err != nil {
		return nil, err
	}
	if r := i.looked.ring; r != nil {
		if i.looked.epoch != i.worker.Epoch() || !bytes.Equal(i.looked.addr, addr) || atomic.LoadUint32(r.addrLen) == 0 {
			i.dropCachedRing()
		} else if may != nil && !may(r.proc.ID()) {
			return nil, errNotAsked
		} else {
			return i.seen(), nil
		}
	}
	r, err := i.connect(addr, may)
	if err != nil || r.seg.shrink || i.closed { // not cached: there is no ring, or it may change
		return r, err
	}
	i.dropCachedRing() // the call of may can have cached a ring
	i.looked = ringCache{r, append(i.looked.addr[:0], addr...), i.worker.Epoch()}
	return i.seen(), nil
}

// connect attaches the ring that an address names and checks that the ring can be used. Errors
// match ucs.ErrUnreachable. The caller owns the attachment. If the function may is not nil, it
// decides which process the ring may belong to. It is called as in uct.ProcessIface, because a peer
// can make the objects that it names slow to open and slow to check.
func (i *iface) connect(addr []byte, may func(uct.Process) bool) (*txRing, error) {
	m := i.domain.m
	ref, err := m.parseAddress(addr)
	if err != nil {
		return nil, err
	}
	if err := m.reachable(ref); err != nil {
		return nil, err
	}
	named, err := askAbout(m, ref, may)
	if err != nil {
		return nil, err
	}
	a, err := i.domain.attached.attachWith(i.room, ref, 0)
	if err != nil {
		return nil, err
	}
	r := &txRing{seg: a, ref: ref, elem: i.o.elem}
	if err = i.examine(r, named, may); err == nil && a.owner == 0 {
		err = i.checkNamed(r)
	}
	if err != nil {
		i.domain.attached.release(a)
		return nil, err
	}
	return r, nil
}

// errNotAsked says that the function may has refused the process, or that the ring belongs to
// another process than the one that the function was called with.
var errNotAsked = fmt.Errorf("the address does not belong to the requesting process: %w: %w", ucs.ErrRejected, ucs.ErrUnreachable)

// askAbout calls the function may with the process that a reference names, before anything is
// opened. It returns that process, or the zero value if the reference does not contain the process
// or the function is nil.
func askAbout(m mapper, ref reference, may func(uct.Process) bool) (named host.Process, err error) {
	if may == nil {
		return named, nil
	}
	pid, err := m.process(ref)
	if err == nil && pid != 0 {
		named, err = host.Find(pid)
	}
	if err == nil && !may(asked(named)) {
		err = errNotAsked
	}
	return named, err
}

// asked returns the argument for the function may: the identity of p, or 0 if p is the zero value.
func asked(p host.Process) uct.Process {
	if p.PID == 0 {
		return 0
	}
	return p.ID()
}

// checkNamed checks that a ring in a file with a name belongs to the process that the ring names.
// Such a file could belong to any process.
func (i *iface) checkNamed(r *txRing) error {
	a, err := i.domain.attached.attach(r.ref, r.pid)
	if err != nil {
		return err
	}
	i.domain.attached.release(a)
	if a != r.seg {
		return fmt.Errorf("the peer has replaced its ring since it sent the address: %w", ucs.ErrUnreachable)
	}
	return nil
}

// examine finds the parts of a peer's ring and validates them. Before it reads the elements it
// finds the process that owns the ring. If the function may is not nil, the owner must be the
// process named. If named is the zero value, examine calls the function with the owner.
func (i *iface) examine(r *txRing, named host.Process, may func(uct.Process) bool) (err error) {
	if r.seg.shrink {
		defer fault.End(fault.Begin(), r, nil, &err)
	}
	most, err := ringLen(r.seg.size, r.elem)
	if err != nil {
		return err
	}
	b := r.seg.mem
	r.head = word64(b, headOffset)
	r.addrLen = word32(b, addrLenOffset)
	r.peer = word64(b, tailOffset)
	r.tail = atomic.LoadUint64(r.peer)
	r.pid = int(int32(binary.LittleEndian.Uint32(b[pidOffset:])))

	length := atomic.LoadUint32(r.addrLen)
	if length == 0 {
		return fmt.Errorf("the peer has closed its ring: %w", ucs.ErrUnreachable)
	}
	if name, ok := parseSockaddr(b[addrOffset:addrOffset+sockaddrLen], length); ok {
		r.wakeup = name
	}
	switch {
	case r.seg.owner < 0:
		return fmt.Errorf("the peer, process %d of its PID namespace, is not visible in this one: %w", r.pid, ucs.ErrUnreachable)
	case r.seg.owner != 0 && r.seg.owner != r.pid:
		return fmt.Errorf("the ring of process %d names process %d as its owner: "+
			"the peer is in another PID namespace, or hostile: %w", r.seg.owner, r.pid, ucs.ErrUnreachable)
	}
	if r.proc, err = host.Find(r.pid); err != nil {
		return err
	}
	if may != nil && r.proc != named && (named.PID != 0 || !may(r.proc.ID())) {
		return errNotAsked
	}
	owner := i.domain.m.owner(r.ref.id)
	n, bad := i.countElements(b[elemsOffset:], most, owner)
	if n < minRing {
		return fmt.Errorf("the ring of process %d, in %d bytes, has no elements of %d bytes with buffers for %d: "+
			"UCX_*_FIFO_ELEM_SIZE and UCX_*_SEG_SIZE must be the same in all processes; element %d is wrong: %w",
			r.pid, r.seg.size, r.elem, i.o.seg, bad, ucs.ErrUnreachable)
	}
	r.n = uint64(n)
	r.elems = b[elemsOffset : elemsOffset+n*r.elem]
	r.ours = binary.LittleEndian.Uint32(b[markOffset:]) == mark
	if n != i.o.ring && !r.ours {
		return i.errOtherRing(r.pid, n)
	}
	return nil
}

// errOtherRing is the error for a peer of C UCX whose ring has n elements, another number than
// the ring of this process. C UCX assumes that both rings have the same length, and hangs
// when it has sent as many messages as the shorter ring has elements.
func (i *iface) errOtherRing(pid, n int) error {
	release := "1.22"
	if n == ring113 {
		release = "1.13"
	}
	return fmt.Errorf("%w: the ring of process %d has %d elements, that of this process has %d, and C UCX, which assumes that all have the same, "+
		"would hang: set UCX_PEER_RELEASE=%s, if that is the peer's release, or UCX_*_FIFO_SIZE=%d: %w",
		uct.ErrMismatch, pid, n, i.o.ring, release, n, ucs.ErrUnreachable)
}

// Fault implements fault.Owner, for a ring that examine or bufferIDs reads.
func (r *txRing) Fault(addr uint64, _ []byte) error {
	if !fault.Within(addr, r.seg.mem) {
		return nil
	}
	return fmt.Errorf("%w: %w", errTruncated(addr), ucs.ErrUnreachable)
}

// countElements returns the number of elements in a ring: a power of two, most at most. Elements
// are recognised by the descriptors in them. The rest of a segment that was rounded up to pages is
// zero, so a descriptor with size zero means that there is no element. An id of zero does not mean
// that: the first System V segment in an IPC namespace has the id 0. In a long ring not every
// element is checked, because a hostile owner could make that take very long. The first
// firstElements elements show that elements have the size that is expected here; the others are
// checked when they are used. bad is the first element without a descriptor, if it is one of the
// first firstElements.
func (i *iface) countElements(elems []byte, most, owner int) (n, bad int) {
	has := func(k int) bool {
		d := readDescriptor(elems[k*i.o.elem:])
		return uint64(d.offset)+uint64(i.o.seg) <= uint64(d.size) && owner == i.domain.m.owner(d.seg)
	}
	for bad < min(most, firstElements) && has(bad) {
		bad++
	}
	for n = most; n > bad && (bad < firstElements || !has(n-1)); n /= 2 {
	}
	return n, bad
}

// firstElements is the number of elements at the start of a ring of which each is checked. It is a
// power of two.
const firstElements = 16

// Reachable implements uct.Iface. It attaches and checks the peer's ring.
func (i *iface) Reachable(p uct.ReachableParams) error {
	_, err := i.FindProcess(p, nil)
	return err
}

// FindProcess implements uct.ProcessIface.
func (i *iface) FindProcess(p uct.ReachableParams, may func(uct.Process) bool) (uct.Process, error) {
	r, err := i.lookAt(p.DeviceAddr, p.IfaceAddr, may)
	if err != nil {
		return 0, fmt.Errorf("shm: %s: %w", i.domain.attr.Component, err)
	}
	i.domain.attached.release(r.seg)
	return r.proc.ID(), nil
}

// SameLibrary implements uct.ProcessIface, by the mark in the peer's ring.
func (i *iface) SameLibrary(p uct.ReachableParams) bool {
	r, err := i.lookAt(p.DeviceAddr, p.IfaceAddr, nil)
	if err != nil {
		return false
	}
	i.domain.attached.release(r.seg)
	return r.ours
}

// NewEndpoint implements uct.Iface. It attaches the receive buffers that the peer's ring
// names now, so that a failure to attach them is reported before a message depends on them.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	if p.PathIndex < 0 || p.PathIndex >= i.attr.NumPaths {
		return nil, fmt.Errorf("shm: path %d of %d: %w", p.PathIndex, i.attr.NumPaths, ucs.ErrInvalidParam)
	}
	r, err := i.lookAt(p.DeviceAddr, p.IfaceAddr, nil)
	if err != nil {
		return nil, fmt.Errorf("shm: %s: %w", i.domain.attr.Component, err)
	}
	e := &endpoint{
		txRing: *r,
		i:      i,
		fenced: r.seg.shrink,
		user:   p.UserData,
	}
	i.endpoints.Add(&e.place, e)
	if err := e.attachBuffers(); err != nil {
		e.Close()
		return nil, fmt.Errorf("shm: %s: receive buffers of the peer: %w: %w", i.domain.attr.Component, err, ucs.ErrUnreachable)
	}
	if e.unwakeable = r.proc.OtherNetwork(); e.unwakeable {
		i.sleeps.unwakeable++
	}
	i.watcher.Begin(&e.exit.watch, r.proc, e)
	i.lookAtSome()
	return e, nil
}

// Process implements uct.ProcessEndpoint.
func (e *endpoint) Process() uct.Process { return e.proc.ID() }
