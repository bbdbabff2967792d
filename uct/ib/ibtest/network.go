//go:build linux

package ibtest

import (
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Network is Named over all devices of a network. Operations that the devices could not do
// at once are retried in every round of each worker that uses one, as real devices do by
// themselves.
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

// domain has the network go on with its workers.
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

// service is a network as a worker progresses it.
type service struct{ net *verbstest.Fabric }

// Progress implements uct.Progressor.
func (s service) Progress() int {
	s.net.Progress()
	return 0
}

// Close implements uct.Service.
func (s service) Close() error { return nil }
