//go:build linux

package sockcm

import (
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// Host contains the functions and limits that the transport provides to its manager.
type Host struct {
	Component string

	// Device returns the name of the device that has the local address of a socket.
	Device func(fd int, local netip.Addr) (string, error)

	// Here reports whether an address belongs to this machine.
	Here func(netip.Addr) bool

	// DeviceAddr returns the transport's device address for an IP address.
	DeviceAddr func(netip.Addr) []byte

	// Allows reports whether connections from an address are accepted.
	Allows func(netip.Addr) bool

	// Ceiling returns the first descriptor number that connections of untrusted peers may not
	// use.
	Ceiling func() int

	Limits Limits
}

// Limits bound the resources that untrusted peers can use in a manager.
type Limits struct {
	Visitors int           // connections without a complete request; half for one source
	Few      int           // connections up to which a source loses none for a descriptor
	OfSource int           // connections of one source, in the process
	All      int           // connections of all sources, in the process
	Pause    time.Duration // pause of accepting when no descriptor is free
}

// manager implements uct.ConnManager.
type manager struct {
	connkit.Manager
	host         Host
	opts         options
	buf          []byte // room for the longest message, and one byte to detect a longer one
	diag         sockdiag.Asker
	ceiling      int            // Host.Ceiling at the last event of a listener
	pendingConns []*pendingConn // visitors of all listeners, the oldest first
}

var _ interface {
	uct.ConnManager
	uct.Progressor
} = (*manager)(nil)

// Open opens a connection manager on a worker.
func Open(w *uct.Worker, host Host, cfg *config.Set) (uct.ConnManager, error) {
	opts, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	m := &manager{host: host, opts: opts, buf: make([]byte, headerLen+opts.private+1)}
	m.Manager.Open(w, host.Component, uct.ConnManagerAttr{Component: host.Component, MaxPrivate: opts.private}, opts.common)
	w.AddProgress(m)
	return m, nil
}

// Close implements uct.ConnManager.
func (m *manager) Close() error {
	if m.Worker != nil {
		m.CloseAll(m)
		m.diag.Close()
	}
	return nil
}
