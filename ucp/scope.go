package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// guard is a memory domain that lets peers, without a key, at registered memory.
type guard struct {
	md    uct.MemoryDomain
	scope int // index in Worker.scopers, -1: everybody is let in who knows the address
}

// scoper is a domain that can tell peers apart.
type scoper struct {
	uct.Scoper
	md int // index in the context
}

// scopesOf returns a peer as the domains know it that can tell peers apart.
func (w *Worker) scopesOf(addr *proto.WorkerAddress) []uct.Scope {
	if len(w.scopers) == 0 {
		return nil
	}
	list := make([]uct.Scope, len(w.scopers))
	for k := range w.scopers {
		list[k] = w.scopers[k].Scope(w.partOf(addr, w.scopers[k].md))
	}
	return list
}

// partOf lists the entries of an address that are of a domain's transports.
func (w *Worker) partOf(addr *proto.WorkerAddress, md int) (list []uct.ReachableParams) {
	list = make([]uct.ReachableParams, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.md == md && i.id == f.Transport }) {
			list = append(list, uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
		}
		return true
	})
	return list
}

// errNoScope says that the domains do not know whom memory would be opened to.
var errNoScope = fmt.Errorf("ucp: the peer cannot be identified by its address: %w", ucs.ErrUnsupported)

// register opens memory to the peer of an endpoint.
func (g *guard) register(buf []byte, access uct.Access, ep *Endpoint) (uct.MemHandle, error) {
	if ep.where != nil && ep.where.back || ep.state&epAstray != 0 {
		return nil, errNoScope
	}
	if g.scope < 0 || ep.where == nil || g.scope >= len(ep.where.scopes) {
		return g.md.Register(buf, access)
	}
	return ep.w.scopers[g.scope].RegisterFor(buf, access, ep.where.scopes[g.scope])
}

// offeredOver is told by which connection the peer of an endpoint offers data. If it may
// not write over that, as it comes from a place that its address does not name, it is
// asked for messages: most peers write over the connection that they offer by, and would
// lose it.
func (ep *Endpoint) offeredOver(src *uct.Source) {
	if src == nil || ep.state&epAstray != 0 || ep.where == nil {
		return
	}
	for k, s := range ep.where.scopes {
		if ep.w.scopers[k].Excludes(s, src) {
			ep.state |= epAstray
		}
	}
}
