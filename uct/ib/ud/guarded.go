//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// guarded is an interface whose methods take the lock of its background.
type guarded struct {
	*iface
	b *background
}

var (
	_ uct.Iface        = (*guarded)(nil)
	_ uct.Progressor   = (*guarded)(nil)
	_ uct.NetworkIface = (*guarded)(nil)
)

// Progress implements uct.Progressor.
func (g *guarded) Progress() int {
	g.b.enter()
	defer g.b.leave()
	g.b.rounds++
	n := g.iface.Progress()
	if !g.closed {
		g.retired.release(g.iface)
	}
	return n
}

// Arm implements uct.Progressor.
func (g *guarded) Arm(events uct.EventFlags) error {
	g.b.enter()
	defer g.b.leave()
	return g.iface.Arm(events)
}

// Failed implements uct.NetworkIface.
func (g *guarded) Failed() error {
	g.b.enter()
	defer g.b.leave()
	return g.iface.Failed()
}

// Reachable implements uct.Iface.
func (g *guarded) Reachable(p uct.ReachableParams) error {
	g.b.enter()
	defer g.b.leave()
	return g.iface.Reachable(p)
}

// ResolveAddress implements uct.NetworkIface.
func (g *guarded) ResolveAddress(p uct.ReachableParams, done func(found bool)) bool {
	g.b.enter()
	defer g.b.leave()
	return g.iface.ResolveAddress(p, done)
}

// NewEndpoint implements uct.Iface.
func (g *guarded) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	g.b.enter()
	defer g.b.leave()
	ep, err := g.iface.NewEndpoint(p)
	if err != nil {
		return nil, err
	}
	e := &guardedEndpoint{ep.(*endpoint), g.b}
	e.self = e
	return e, nil
}

// SetAMHandler implements uct.Iface.
func (g *guarded) SetAMHandler(id uct.AMID, h uct.AMHandler) error {
	g.b.enter()
	defer g.b.leave()
	return g.iface.SetAMHandler(id, h)
}

// Close implements uct.Iface.
func (g *guarded) Close() error {
	g.b.enter()
	if g.closed || g.endpoints > 0 {
		defer g.b.leave()
		return g.iface.Close()
	}
	g.Worker.RemoveProgress(g)
	err := g.iface.release()
	g.b.leave()
	g.b.close()
	return err
}

// guardedEndpoint is an endpoint whose methods take the lock of its interface's background.
type guardedEndpoint struct {
	*endpoint
	b *background
}

var _ interface {
	uct.Endpoint
	uct.Paired
	uct.NetworkEndpoint
	kit.Failing
} = (*guardedEndpoint)(nil)

// AMShort implements uct.Endpoint.
func (g *guardedEndpoint) AMShort(id uct.AMID, header uint64, payload []byte, f uct.SendFlags, c *uct.Completion) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.AMShort(id, header, payload, f, c)
}

// AMShortIOV implements uct.Endpoint.
func (g *guardedEndpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, f uct.SendFlags, c *uct.Completion) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.AMShortIOV(id, iov, f, c)
}

// AMBcopy implements uct.Endpoint.
func (g *guardedEndpoint) AMBcopy(id uct.AMID, p uct.Packer, f uct.SendFlags, c *uct.Completion) (int, error) {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.AMBcopy(id, p, f, c)
}

// AMZcopy implements uct.Endpoint.
func (g *guardedEndpoint) AMZcopy(id uct.AMID, hdr uct.Packer, iov []uct.IOV, f uct.SendFlags, c *uct.Completion) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.AMZcopy(id, hdr, iov, f, c)
}

// Flush implements uct.Endpoint.
func (g *guardedEndpoint) Flush(f uct.FlushFlags, c *uct.Completion) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.Flush(f, c)
}

// Fence implements uct.Endpoint.
func (g *guardedEndpoint) Fence() error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.Fence()
}

// Check implements uct.Endpoint.
func (g *guardedEndpoint) Check(c *uct.Completion) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.Check(c)
}

// PendingAdd implements uct.Endpoint.
func (g *guardedEndpoint) PendingAdd(p *uct.Pending) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.PendingAdd(p)
}

// PendingPurge implements uct.Endpoint.
func (g *guardedEndpoint) PendingPurge(fn func(*uct.Pending)) {
	g.b.enter()
	defer g.b.leave()
	g.endpoint.PendingPurge(fn)
}

// Close implements uct.Endpoint.
func (g *guardedEndpoint) Close() {
	g.b.enter()
	defer g.b.leave()
	g.endpoint.Close()
}

// Address implements uct.Paired.
func (g *guardedEndpoint) Address() ([]byte, error) {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.Address()
}

// ConnectToEP implements uct.Paired.
func (g *guardedEndpoint) ConnectToEP(dev, iface, ep []byte) error {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.ConnectToEP(dev, iface, ep)
}

// IsConnectedTo implements uct.Paired.
func (g *guardedEndpoint) IsConnectedTo(dev, iface, ep []byte) bool {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.IsConnectedTo(dev, iface, ep)
}

// Source implements uct.NetworkEndpoint.
func (g *guardedEndpoint) Source() *uct.Source {
	g.b.enter()
	defer g.b.leave()
	return g.endpoint.Source()
}
