//go:build linux

package tcp

import (
	"crypto/tls"
	"fmt"
	"runtime"
	"sync"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// domain is the only memory domain of the component. It does not support Alloc. Peers can
// write to memory that is registered with uct.AccessRemotePut and to no other memory. Keys are
// empty, as in C UCX: a put carries only an address.
type domain struct {
	attr    uct.MDAttr
	opts    mdOptions
	tls     *tls.Config // configuration of all connections; nil: they are not encrypted
	secure  func(*conn) // begins the TLS handshake of a connection; nil without TLS
	exposed exposedTable
	routes  func() netlink.Routes // the kernel's routes, recently read
	devices deviceList
}

var (
	_ uct.MemoryDomain = (*domain)(nil)
	_ uct.ScopedMemory = (*domain)(nil)
)

func newDomain(opts mdOptions) *domain {
	host := []ucs.MemoryType{ucs.MemoryHost}
	m := &domain{
		attr: uct.MDAttr{
			Component:   componentName,
			Name:        componentName,
			Flags:       uct.MDFlagRegister,
			RegTypes:    host,
			AccessTypes: host,
			MaxReg:      ^uint64(0),
		},
		opts:    opts,
		routes:  recentRoutes(),
		devices: deviceList{read: func() ([]netdev, error) { return netdevs(opts) }},
	}
	runtime.SetFinalizer(m, func(m *domain) { m.exposed.abandon() })
	return m
}

// Attr implements uct.MemoryDomain.
func (m *domain) Attr() *uct.MDAttr { return &m.attr }

// Alloc implements uct.MemoryDomain.
func (m *domain) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

// Register implements uct.MemoryDomain. It pins Go memory. buf is never on a goroutine's stack,
// because passing it to Register makes it escape. In steady state Register allocates nothing.
func (m *domain) Register(buf []byte, access uct.Access) (uct.MemHandle, error) {
	if m.attr.Flags&uct.MDFlagRegister == 0 {
		return nil, ucs.ErrUnsupported
	}
	return m.exposed.add(buf, access&uct.AccessRemotePut != 0, nil), nil
}

// Scope implements uct.ScopedMemory.
func (m *domain) Scope(peer []uct.ReachableParams) uct.Scope { return newScope(peer) }

// RegisterFor implements uct.ScopedMemory.
func (m *domain) RegisterFor(buf []byte, access uct.Access, s uct.Scope) (uct.MemHandle, error) {
	if s == nil || m.attr.Flags&uct.MDFlagRegister == 0 {
		return m.Register(buf, access)
	}
	peer, ok := s.(*scope)
	if !ok {
		return nil, fmt.Errorf("tcp: scope of another domain: %w", ucs.ErrInvalidParam)
	}
	return m.exposed.add(buf, access&uct.AccessRemotePut != 0, peer), nil
}

// Excludes implements uct.ScopedMemory.
func (m *domain) Excludes(s uct.Scope, src *uct.Source) bool {
	peer, ok := s.(*scope)
	c, here := src.Owner.(*conn)
	if !ok || !here || c.iface.md != m {
		return false
	}
	c.identify()
	return !peer.admits(c) && c.owner != ownerUnsure // ownerUnsure: the owner will be known later
}

// Deregister implements uct.MemoryDomain. When Deregister returns, no peer writes to the memory
// any more: a put that was in flight loses its connection.
func (m *domain) Deregister(h uct.MemHandle) error {
	r, ok := h.(*region)
	if !ok {
		return fmt.Errorf("tcp: handle of another domain: %w", ucs.ErrInvalidParam)
	}
	return m.exposed.remove(r)
}

// AppendKey implements uct.MemoryDomain: keys are empty.
func (m *domain) AppendKey(b []byte, _ uct.MemHandle) ([]byte, error) { return b, nil }

// emptyKey is the result of unpacking any key: keys contain no data.
var emptyKey uct.Rkey

// UnpackRkey implements uct.MemoryDomain.
func (m *domain) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	if len(packed) != 0 {
		return nil, fmt.Errorf("tcp: remote key of %d bytes, expected none: %w", len(packed), ucs.ErrInvalidParam)
	}
	return &emptyKey, nil
}

// RkeyPtr implements uct.MemoryDomain.
func (m *domain) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) {
	return nil, ucs.ErrUnsupported
}

// ReleaseRkey implements uct.MemoryDomain.
func (m *domain) ReleaseRkey(*uct.Rkey) error { return nil }

// Resources implements uct.MemoryDomain.
func (m *domain) Resources() ([]uct.Resource, error) {
	devs, err := m.devices.look()
	if err != nil {
		return nil, err
	}
	list := make([]uct.Resource, len(devs))
	for i := range devs {
		list[i] = devs[i].resource(m.attr.Name)
	}
	return list, nil
}

// OpenIface implements uct.MemoryDomain.
func (m *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	if p.Transport != m.attr.Name {
		return nil, fmt.Errorf("%s: no transport %q: %w", m.attr.Name, p.Transport, ucs.ErrNoDevice)
	}
	opts, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	var i uct.Iface
	err = m.devices.with(p.Device, func(d netdev) (err error) {
		i, err = openIface(m, w, p, opts, &d)
		return err
	})
	return i, err
}

// Close implements uct.MemoryDomain.
func (m *domain) Close() error {
	m.exposed.mu.Lock()
	defer m.exposed.mu.Unlock()
	if n := m.exposed.live; n != 0 {
		return fmt.Errorf("tcp: closing a memory domain with %d registrations: %w", n, ucs.ErrBusy)
	}
	return nil
}

// recentRoutes returns a function that returns the kernel's routes, as read recently. If the routes
// cannot be read, only loopback is reachable; the first such failure is logged.
func recentRoutes() func() netlink.Routes {
	var recent netlink.Recent
	var complained sync.Once
	return func() netlink.Routes {
		r, err := recent.Routes()
		if err != nil {
			complained.Do(func() { log.Diag("cannot read the routing tables", zap.Error(err)) })
		}
		return r
	}
}

// componentName is the name of the component, of its memory domain and of its
// transport.
const componentName = "tcp"

type component struct{}

func init() { uct.Register(component{}) }

// Name implements uct.Component.
func (component) Name() string { return componentName }

// Flags implements uct.Component.
func (component) Flags() uct.ComponentFlags { return uct.ComponentFlagCM }

// Transports implements uct.Component.
func (component) Transports() []string { return []string{componentName} }

// MemoryDomains implements uct.Component.
func (component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: componentName}}, nil
}

// OpenMD implements uct.Component.
func (component) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	if name != componentName {
		return nil, fmt.Errorf("tcp: no memory domain %q: %w", name, ucs.ErrNoDevice)
	}
	opts, err := loadMDOptions(cfg)
	if err != nil {
		return nil, err
	}
	return newDomain(opts), nil
}
