//go:build linux

package tcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Endpoints can also be connected pairwise (CONNECT_TO_EP): each side makes an endpoint and
// publishes its key, a number that the side chooses. The side whose listener has the smaller
// address connects and sends the other side's key; the other side waits. The key identifies the
// endpoint, so the request is not answered. Between two endpoints of one iface neither address is
// smaller: the endpoint whose ConnectToEP is called first connects, and marks the other one, which
// the iface finds by its key, as waiting. An endpoint that is connected with itself has two
// connections, one in each direction.

// addKey gives an endpoint a key. A process that knows the key is taken for the peer, so the key
// is random; C UCX counts its keys, which can be guessed. The key is odd like those of C UCX,
// although peers do not depend on that.
func (i *iface) addKey(ep *endpoint) {
	for ep.key = 0; ep.key == 0 || i.keys[ep.key] != nil; {
		ep.key = rand.Uint64() | 1
	}
	ep.toEP = true
	i.keys[ep.key] = ep
}

// removeKey removes the key of an endpoint that still waits for its peer.
func (i *iface) removeKey(ep *endpoint) {
	if i.keys[ep.key] == ep {
		delete(i.keys, ep.key)
	}
}

// Address implements uct.Endpoint: the listener's port and the endpoint's key. After ConnectToEP
// it is the key of the connection instead, which is that of the side that waited, as in C UCX
// (uct_tcp_ep_connect_to_ep_v2): the same key shows that both ends belong together.
func (ep *endpoint) Address() ([]byte, error) {
	if !ep.toEP {
		return nil, fmt.Errorf("tcp: the endpoint was made for one peer: %w", ucs.ErrUnsupported)
	}
	key := ep.key
	if ep.peer != (sockaddr{}) {
		key = ep.sn
	}
	b := binary.BigEndian.AppendUint16(nil, ep.iface.addr.port)
	return le.AppendUint64(b, key), nil
}

// ConnectToEP implements uct.Endpoint.
func (ep *endpoint) ConnectToEP(dev, iface, addr []byte) error {
	if ep.err != nil {
		return ep.err
	}
	if !ep.iface.attr.Flags.Has(uct.IfaceConnectToEP) {
		return ucs.ErrUnsupported
	}
	if !ep.toEP || len(addr) != epAddrLen {
		return fmt.Errorf("tcp: endpoint address of %d bytes: %w", len(addr), ucs.ErrInvalidParam)
	}
	if len(iface) > 0 && !bytes.Equal(addr[:ifaceAddrLen], iface) { // addr begins with the port of the listener
		return fmt.Errorf("tcp: the endpoint of address %x is of another interface than %x: %w", addr, iface, ucs.ErrInvalidAddr)
	}
	d, peer, err := parseListener(dev, addr[:ifaceAddrLen])
	if err != nil {
		return err
	}
	if d.v6 != ep.iface.addr.v6 {
		return ep.iface.errOtherFamily(peer)
	}
	key := le.Uint64(addr[ifaceAddrLen:])
	if peer == ep.iface.addr {
		ep.connectWithin(key)
		return nil
	}
	ep.peer, ep.sn = peer, ep.key
	if ep.conn != nil {
		return nil // the peer has connected already
	}
	if peer.compare(&ep.iface.addr) < 0 {
		return nil // the peer connects
	}
	ep.iface.removeKey(ep)
	ep.sn = key
	ep.connect()
	return nil
}

// connectWithin connects the endpoint with the endpoint of the same iface that has the given key,
// unless the other endpoint is connecting already. In that case the other endpoint's address has
// the key of the connection, which is this endpoint's own key.
func (ep *endpoint) connectWithin(key uint64) {
	i := ep.iface
	if ep.peer == i.addr {
		return // the other endpoint was told first, and connects
	}
	if ep.conn != nil { // from a peer that knows the key and claims another listener
		ep.peer, ep.sn = i.addr, ep.key
		return
	}
	ep.peer, ep.sn = i.addr, key
	other := i.keys[key]
	if other != ep {
		i.removeKey(ep)
	}
	if other != nil && other.peer == (sockaddr{}) {
		other.peer, other.sn = i.addr, key
	}
	ep.connect()
}

// LeadsTo implements uct.Located.
func (ep *endpoint) LeadsTo(dev, iface, addr []byte) bool {
	_, peer, err := parseListener(dev, iface)
	if err != nil || peer != ep.peer {
		return false
	}
	return addr == nil || ep.toEP && len(addr) == epAddrLen && le.Uint64(addr[ifaceAddrLen:]) == ep.sn
}

// acceptKey gives the connection to the endpoint whose key the connection's request names.
func (c *conn) acceptKey() {
	ep := c.iface.keys[c.sn]
	if ep == nil {
		c.close()
		return
	}
	c.iface.removeKey(ep)
	c.toEP, c.rx = true, true
	if ep.conn != nil {
		c.state = stateConnected // the endpoint sends on its own connection
		return
	}
	c.ep, ep.conn, ep.peer, ep.sn = ep, c, c.peer, ep.key
	c.taken(ep)
	ep.connected()
}
