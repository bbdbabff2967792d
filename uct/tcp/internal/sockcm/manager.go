//go:build linux

package sockcm

import (
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Host is what a manager asks its transport.
type Host struct {
	Component string

	// Device is the name of the device that has the own address of a socket.
	Device func(fd int, local netip.Addr) (string, error)

	// Here reports whether an address is one of this machine.
	Here func(netip.Addr) bool

	// DeviceAddr is the device address by which the transport knows an address.
	DeviceAddr func(netip.Addr) []byte

	// Allows reports whether connections from an address are accepted.
	Allows func(netip.Addr) bool

	// Ceiling is the first descriptor that is not for strangers.
	Ceiling func() int

	Limits Limits
}

// Limits are what strangers can make a manager keep.
type Limits struct {
	Visitors int           // connections without a whole request; half as many from one source
	Few      int           // that many a source keeps, whatever others do
	OfSource int           // connections of one source, in the process
	All      int           // those of all
	Pause    time.Duration // of accepting, when no descriptor is to be had
}

// manager implements uct.ConnManager.
type manager struct {
	w       *uct.Worker // nil: closed
	host    Host
	opts    options
	attr    uct.ConnManagerAttr
	buf     []byte // what a message needs, and one byte to see that there is more
	diag    sockdiag.Asker
	ceiling int // as of the last event

	listeners map[*listener]struct{}
	endpoints map[*endpoint]struct{}
	visitors  []*visitor  // of all listeners, the oldest first
	failed    []*endpoint // outside of Progress, where nobody could be told
	dialing   int         // endpoints that are to be connected
}

var _ interface {
	uct.ConnManager
	uct.Progressor
	uct.Armer
} = (*manager)(nil)

// Open opens a manager on a worker.
func Open(w *uct.Worker, host Host, cfg *config.Set) (uct.ConnManager, error) {
	opts, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	m := &manager{
		w: w, host: host, opts: opts,
		attr:      uct.ConnManagerAttr{Component: host.Component, MaxPrivate: opts.private},
		buf:       make([]byte, headerLen+opts.private+1),
		listeners: make(map[*listener]struct{}),
		endpoints: make(map[*endpoint]struct{}),
	}
	w.AddProgress(m)
	return m, nil
}

// Attr implements uct.ConnManager.
func (m *manager) Attr() *uct.ConnManagerAttr { return &m.attr }

// Progress implements uct.Progressor. The event set does the rest: it is asked in each
// round only while the application waits to be connected.
func (m *manager) Progress() int {
	n := 0
	if len(m.failed) > 0 {
		list := m.failed
		m.failed = nil
		for _, ep := range list {
			ep.fail(ep.err)
		}
		n = len(list)
	}
	if m.dialing > 0 {
		n += m.w.AwaitEvents()
	}
	return n
}

// Arm implements uct.Armer.
func (m *manager) Arm() error {
	if len(m.failed) > 0 {
		return errBusy
	}
	return nil
}

// Close implements uct.ConnManager.
func (m *manager) Close() error {
	if m.w == nil {
		return nil
	}
	for l := range m.listeners {
		l.Close()
	}
	for ep := range m.endpoints {
		ep.Close()
	}
	m.diag.Close()
	m.w.RemoveProgress(m)
	m.w = nil
	return nil
}
