//go:build linux

package ibtest

import (
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Network is Named with all devices of a network. Every progress round of a worker that uses one of
// the devices retries the operations that could not be completed at once. Real devices retry them
// without a call.
func Network(name string, net *verbstest.Fabric) uct.Component {
	return &network{Named(name, net.Devices()...), net}
}

type network struct {
	uct.Component
	net *verbstest.Fabric
}

// OpenMD implements uct.Component.
func (n *network) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	md, err := n.Component.OpenMD(name, cfg)
	if err != nil {
		return nil, err
	}
	return &domain{md.(*ib.Domain), n}, nil
}

// domain is a memory domain whose workers progress the simulated network.
type domain struct {
	*ib.Domain
	of *network
}

// OpenIface implements uct.MemoryDomain.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	i, err := d.Domain.OpenIface(w, p, cfg)
	if err == nil {
		_, err = w.Service("verbstest", func() (uct.Service, error) { return service{d.of.net}, nil })
	}
	return i, err
}

// service makes a worker progress the simulated network.
type service struct{ net *verbstest.Fabric }

// Progress implements uct.Progressor.
func (s service) Progress() int {
	s.net.Progress()
	return 0
}

// Arm implements uct.Progressor. It always succeeds, because nothing happens in the network while
// no worker is progressed.
func (s service) Arm(uct.EventFlags) error { return nil }

// Push implements uct.Service.
func (s service) Push() {}

// Close implements uct.Service.
func (s service) Close() error { return nil }
