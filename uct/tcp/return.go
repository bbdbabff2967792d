//go:build linux

package tcp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Endpoints that only answer the peer at the other end of a connection. The listener that the peer
// claims may belong to another process (claim.go). So such an endpoint is not in the match table
// under that listener, and never connects to it.

var _ uct.ReturnIface = (*iface)(nil)

// CanReturn implements uct.ReturnIface.
func (i *iface) CanReturn(over *uct.Source, p uct.ReachableParams) bool {
	c, _ := over.Owner.(*conn)
	_, peer, err := parsePeer(p.DeviceAddr, p.IfaceAddr)
	return c != nil && err == nil && (c.iface == i || c.iface.first == i) && c.iface.canReturn(c, peer)
}

// canReturn reports whether an answering endpoint can send on a connection of the peer: no endpoint
// of this side sends on it, and none has its number, which might turn out to be its other end.
func (i *iface) canReturn(c *conn, peer sockaddr) bool {
	return c.iface == i && c.ep == nil && c.matched && !c.outgoing && c.state == stateConnected && c.rx &&
		i.md.tls == nil && c.peer == peer && peer != i.addr && i.match.entries[matchKey{peer, c.sn}].ep == nil
}

// returnOver makes ep an endpoint that sends on a connection of the peer. The endpoint's number is
// the connection's. New endpoints do not get that number while the endpoint exists.
func (i *iface) returnOver(ep *endpoint, over *uct.Source, peer sockaddr) (uct.Endpoint, error) {
	c, _ := over.Owner.(*conn)
	if c == nil || !i.canReturn(c, peer) {
		return nil, fmt.Errorf("tcp: the connection cannot carry replies to %v: %w", peer, ucs.ErrUnreachable)
	}
	ep.numbers = i.match.numbers.hold(peer)
	ep.peer, ep.sn, ep.returns = peer, c.sn, true
	if i.match.returning == nil {
		i.match.returning = make(map[matchKey]int)
	}
	i.match.returning[matchKey{peer, c.sn}]++
	i.addEndpoint(ep)
	i.takeOver(ep, c)
	return ep, nil
}
