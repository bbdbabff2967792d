//go:build linux

package ucptest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestNetOnly checks that an endpoint to a network-only address uses no transport that works only
// within a machine, and that such an address without a network reaches nothing. The complete
// address of the same worker uses local transports.
func TestNetOnly(t *testing.T) {
	for _, inside := range []string{"self", "posix", "sysv", "posix,cma", "posix,sysv,self"} {
		for _, network := range []bool{false, true} {
			name := inside
			if network {
				name += ",tcp"
			}
			t.Run(name, func(t *testing.T) {
				r := newRig(t, transport{settings: []setting{{"TLS", name}, {"NET_DEVICES", "lo"}}})
				a := r.open()
				b := a // over self a worker reaches only itself
				if inside != "self" {
					b = r.open()
				}
				addr, err := b.Address(ucp.AddressNetOnly)
				if err != nil {
					t.Fatal(err)
				}
				ep, err := a.NewEndpoint(ucp.EndpointParams{Address: addr})
				if !network {
					if ep != nil || !errors.Is(err, ucs.ErrUnreachable) {
						t.Fatalf("an address without anything: %v, %v", ep, err)
					}
				} else {
					if err != nil {
						t.Fatal(err)
					}
					r.sendAndTake(ep, b, 1, []byte("through the network"))
					for _, by := range []*ucp.Endpoint{ep, answering(r, a, b)} {
						if got := transportNames(by); !slices.Equal(got, []string{"tcp"}) {
							t.Errorf("lanes over %v, want tcp alone", got)
						}
					}
				}
				if got := transportNames(a.connect(b)); slices.Contains(got, "tcp") && len(got) == 1 {
					t.Errorf("with the whole address: lanes over %v", got)
				}
			})
		}
	}
}

// answering returns the endpoint of b that a's request has opened, which b's NewEndpoint to a's
// address claims; or the endpoint of a worker to itself.
func answering(r *rig, a, b *side) *ucp.Endpoint {
	addr, err := a.Address(ucp.AddressNetOnly)
	if err != nil {
		r.Fatal(err)
	}
	ep, err := b.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		r.Fatal(err)
	}
	return ep
}

// transportNames returns the transports of an endpoint's lanes, each once, sorted.
func transportNames(ep *ucp.Endpoint) []string {
	var names []string
	for _, l := range ep.Attr().Transports {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
