package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// memoryRights is a worker's state for opening memory to one peer and not to others.
type memoryRights struct {
	w       *Worker
	guards  guards
	scopers []scoper // domains that can distinguish peers
}

// Allow gives the peer of an endpoint access to memory that was mapped for selected peers
// (MemMapParams.Peers). The peer may use any of its endpoints to this worker, until the
// application closes its last endpoint to the peer. Other memory gives ucs.ErrInvalidParam.
// Allow is a call of the endpoint's worker: in the single-goroutine thread modes it belongs
// to the worker's goroutine.
func (m *Memory) Allow(ep *Endpoint) error {
	if m.missing() {
		return errMissing("Memory.Allow", m == nil)
	}
	switch {
	case !m.limited || ep == nil || ep.w.ctx != m.ctx:
		return fmt.Errorf("ucp: Memory.Allow: endpoint: %w", ucs.ErrInvalidParam)
	case m.region == nil:
		return nil // an empty handle has no memory to access
	}
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	if err := ep.usable(); err != nil {
		return err
	}
	if len(ep.lanes) == 0 {
		return ucs.ErrNotConnected // the endpoint is closed
	}
	m.ctx.mu.Lock()
	defer m.ctx.mu.Unlock()
	if err := m.live(); err != nil {
		return err
	}
	m.region.Admit(ep.w.rights.identity(ep))
	for k := range ep.w.rights.scopers {
		s := &ep.w.rights.scopers[k]
		md := ep.w.mds[s.md]
		a := md.Attr()
		if a.Flags&uct.MDFlagNeedRkey != 0 || a.Flags&uct.MDFlagRegister == 0 || uint64(len(m.buf)) > a.MaxReg {
			continue
		}
		mem, err := s.RegisterFor(m.buf, m.region.Access, ep.dest.scopes[k])
		if err != nil {
			return err
		}
		m.scoped = append(m.scoped, exposure{md: md, mem: mem})
	}
	return nil
}

// identity returns a value that stands for the endpoint's peer. It is the same for all endpoints of
// the peer.
func (mr *memoryRights) identity(ep *Endpoint) any {
	if ep.peer == nil {
		return ep.w // the worker itself
	}
	return ep.peer.canonical()
}

// guard is a memory domain that lets peers access registered memory without a key.
type guard struct {
	md    uct.MemoryDomain
	scope int // index in memoryRights.scopers; -1: any peer that knows the address is let in
}

// scoper is a memory domain that can distinguish peers.
type scoper struct {
	uct.Scoper
	md int // index in the context
}

// scopesOf returns the scope that stands for a peer in each domain that can distinguish peers.
func (mr *memoryRights) scopesOf(addr *proto.WorkerAddress) []uct.Scope {
	if len(mr.scopers) == 0 {
		return nil
	}
	list := make([]uct.Scope, len(mr.scopers))
	for k := range mr.scopers {
		list[k] = mr.scopers[k].Scope(mr.partOf(addr, mr.scopers[k].md))
	}
	return list
}

// partOf returns the entries of an address that belong to a domain's transports.
func (mr *memoryRights) partOf(addr *proto.WorkerAddress, md int) (list []uct.ReachableParams) {
	w := mr.w
	list = make([]uct.ReachableParams, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.md == md && i.id == f.Transport }) {
			list = append(list, uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
		}
		return true
	})
	return list
}

// errNoScope is the error for memory that cannot be opened to a peer because the domains cannot
// identify the peer.
var errNoScope = fmt.Errorf("ucp: the peer cannot be identified by its address: %w", ucs.ErrUnsupported)

// register opens memory to the peer of an endpoint. If the domain can distinguish peers, no other
// peer gets access.
func (g *guard) register(buf []byte, access uct.Access, ep *Endpoint) (uct.MemHandle, error) {
	if ep.dest != nil && ep.dest.reversePath || ep.state&epNoRemoteWrite != 0 {
		return nil, errNoScope
	}
	if g.scope < 0 || ep.dest == nil || g.scope >= len(ep.dest.scopes) {
		return g.md.Register(buf, access)
	}
	return ep.w.rights.scopers[g.scope].RegisterFor(buf, access, ep.dest.scopes[g.scope])
}

// offeredOver checks the connection over which the peer of an endpoint offers data. If the
// connection comes from a place that the peer's address does not name, the peer may not write over
// it. Then the peer is asked for messages instead: most peers write over the connection that they
// offer data on, and would lose that connection.
func (mr *memoryRights) offeredOver(ep *Endpoint, src *uct.Source) {
	if src == nil || ep.state&epNoRemoteWrite != 0 || ep.dest == nil {
		return
	}
	for k, s := range ep.dest.scopes {
		if ep.w.rights.scopers[k].Excludes(s, src) {
			ep.state |= epNoRemoteWrite
		}
	}
}

// guards are the memory domains that let peers access, without a key, registered memory only. A
// peer chooses its lanes itself, so memory that is offered to the peer is registered with all of
// these domains.
type guards struct {
	put, get []guard
}

// guardedBy adds the domain of an interface to the guards, if it is one.
func (mr *memoryRights) guardedBy(i *iface) {
	w := mr.w
	md := w.mds[i.md]
	f := md.Attr().Flags
	if f&uct.MDFlagRegister == 0 || f&uct.MDFlagNeedRkey != 0 {
		return
	}
	g := guard{md: md, scope: mr.scoperOf(i.md)}
	if i.attr.Flags.Has(uct.IfacePutZcopy) && !slices.Contains(mr.guards.put, g) {
		mr.guards.put = append(mr.guards.put, g)
	}
	if i.attr.Flags.Has(uct.IfaceGetZcopy) && !slices.Contains(mr.guards.get, g) {
		mr.guards.get = append(mr.guards.get, g)
	}
}

// scoperOf returns the index of a domain in memoryRights.scopers, to which it adds the domain if
// necessary. It returns -1 if the domain cannot distinguish peers.
func (mr *memoryRights) scoperOf(md int) int {
	w := mr.w
	s, ok := w.mds[md].(uct.Scoper)
	if !ok {
		return -1
	}
	if k := slices.IndexFunc(mr.scopers, func(s scoper) bool { return s.md == md }); k >= 0 {
		return k
	}
	mr.scopers = append(mr.scopers, scoper{Scoper: s, md: md})
	return len(mr.scopers) - 1
}
