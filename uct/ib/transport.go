//go:build linux

package ib

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Transport is a transport over devices of package ib. Its package registers it.
type Transport struct {
	Name string // rc_verbs

	// Check returns what a device lacks for the transport, nil if nothing.
	Check func(d *Domain) error

	// Open opens an interface of the transport on a port.
	Open func(p *Port, w *uct.Worker, params uct.IfaceParams, cfg *config.Set) (uct.Iface, error)
}

// transports is written by init functions only.
var transports []Transport

// RegisterTransport adds a transport. Only init functions may call it; two transports of
// one name are a programming error and panic.
func RegisterTransport(t Transport) {
	for i := range transports {
		if transports[i].Name == t.Name {
			panic(fmt.Sprintf("ib: transport %q registered twice", t.Name))
		}
	}
	transports = append(transports, t)
	slices.SortFunc(transports, func(a, b Transport) int { return order(a.Name) - order(b.Name) })
}

// order returns the position of a transport in the order in which C UCX lists transports.
func order(name string) int {
	known := []string{"rc_verbs", "ud_verbs"}
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	return len(known)
}
