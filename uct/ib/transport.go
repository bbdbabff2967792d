//go:build linux

package ib

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// Transport is a transport over devices of package ib. Its package registers it.
type Transport struct {
	Name string // as rc_verbs

	// Check returns an error that says what a device lacks for the transport, nil if nothing.
	Check func(d *Domain) error

	// Open opens an interface of the transport on a port.
	Open func(p *Port, w *uct.Worker, params uct.IfaceParams, cfg *config.Set) (uct.Iface, error)
}

// transports holds the registered transports. Only init functions write it.
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

// RefuseAM returns the error for an active message of n bytes that a transport refuses, because its
// ID is invalid or because n exceeds the limit, the parameter most.
//
//go:noinline
func RefuseAM(transport string, id uct.AMID, n, most int) error {
	if id >= uct.MaxAMIDs {
		return kit.ErrAMID(id)
	}
	return fmt.Errorf("%s: active message of %d bytes, at most %d: %w", transport, n, most, ucs.ErrInvalidParam)
}

// RefuseIOV returns the error for a list of n entries if the limit is the parameter most.
//
//go:noinline
func RefuseIOV(transport string, n, most int) error {
	return fmt.Errorf("%s: list of %d entries, at most %d: %w", transport, n, most, ucs.ErrInvalidParam)
}
