package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// scoped is a domain without keys that can limit access to one peer (uct.ScopedMemory).
type scoped struct {
	*domain
	mu     sync.Mutex
	scopes []*scope // guarded by mu
}

// scope is a peer and the memory registered for it.
type scope struct {
	ifaces []*iface // the peer's ifaces; nil for an address without an iface
	table  kit.Regions
}

var _ uct.ScopedMemory = (*scoped)(nil)

// Scope implements uct.ScopedMemory. It returns the existing scope of the same ifaces if there is
// one.
func (d *scoped) Scope(peer []uct.ReachableParams) uct.Scope {
	var list []*iface
	d.o.Network.mu.Lock()
	for _, p := range peer {
		if len(p.IfaceAddr) == ifaceAddrLen {
			list = append(list, d.o.Network.ifaces[binary.LittleEndian.Uint64(p.IfaceAddr)])
		}
	}
	d.o.Network.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.scopes {
		if slices.Equal(s.ifaces, list) {
			return s
		}
	}
	s := &scope{ifaces: list}
	d.scopes = append(d.scopes, s)
	return s
}

// RegisterFor implements uct.ScopedMemory.
func (d *scoped) RegisterFor(buf []byte, access uct.Access, s uct.Scope) (uct.MemHandle, error) {
	if s == nil {
		return d.Register(buf, access)
	}
	if d.attr.Flags&uct.MDFlagRegister == 0 {
		return nil, ucs.ErrUnsupported
	}
	return d.register(&s.(*scope).table, buf, access)
}

// Excludes implements uct.ScopedMemory. Accesses use no connection.
func (d *scoped) Excludes(uct.Scope, *uct.Source) bool { return false }

// InUse implements uct.ScopedMemory. Every access takes effect at once.
func (d *scoped) InUse(uct.MemHandle) bool { return false }

// Deregister implements uct.MemoryDomain.
func (d *scoped) Deregister(m uct.MemHandle) error {
	if r, ok := m.(*kit.Region); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.scopes {
			if s.table.Remove(r) == nil {
				d.release(r)
				return nil
			}
		}
	}
	return d.domain.Deregister(m)
}

// lookup implements memory.
func (d *scoped) lookup(from *iface, addr uint64, n int, want uct.Access) (b []byte, ok bool) {
	if b, ok = d.table.Lookup(addr, n, want); ok {
		return b, ok
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.scopes {
		if slices.Contains(s.ifaces, from) {
			if b, ok = s.table.Lookup(addr, n, want); ok {
				return b, ok
			}
		}
	}
	return nil, false
}

// holds implements memory.
func (d *scoped) holds(r *kit.Region, b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return r.Holds(&d.table, b) || slices.ContainsFunc(d.scopes, func(s *scope) bool { return r.Holds(&s.table, b) })
}

// Close implements uct.MemoryDomain.
func (d *scoped) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.scopes {
		if n := s.table.Len(); n > 0 {
			return fmt.Errorf("sim: closing a memory domain with %d registrations for peers: %w", n, ucs.ErrBusy)
		}
	}
	return d.domain.Close()
}
