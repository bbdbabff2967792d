package ucp

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// dial makes an endpoint that connects to where a server listens.
func (w *Worker) dial(p *EndpointParams) (*Endpoint, error) {
	if !p.RemoteAddr.IsValid() || p.RemoteAddr.Port() == 0 {
		return nil, fmt.Errorf("ucp: endpoint to address %v: %w", p.RemoteAddr, ucs.ErrInvalidParam)
	}
	c := &connection{client: true, remote: p.RemoteAddr, local: p.LocalAddr, id: p.ClientID, manager: -1}
	if c.sendID = p.Flags&EndpointSendClientID != 0 || c.id != 0; c.id == 0 {
		c.id = w.params.ClientID
	}
	ep, err := w.newConnEndpoint(p, c)
	if err != nil {
		return nil, err
	}
	if err := ep.tryManager(nil); err != nil {
		ep.destroy(err)
		return nil, err
	}
	return ep, nil
}

// tryManager connects by the next manager that there is; the error is why not, that of
// the one before if there was one.
func (ep *Endpoint) tryManager(before error) error {
	c := ep.pair.conn
	list := ep.w.connManagers()
	err := before
	for c.manager++; c.manager < len(list); c.manager++ {
		m := list[c.manager].uct
		if m == nil {
			continue
		}
		var failed error
		c.uct, failed = m.Connect(uct.ConnectParams{
			Remote:         c.remote,
			Local:          c.local,
			Pack:           ep.packClient,
			OnConnected:    ep.onConnected,
			OnDisconnected: ep.onDisconnected,
		})
		if failed == nil {
			return nil
		}
		c.uct = nil
		if err == nil {
			err = failed
		}
	}
	if err == nil {
		err = errNoManager(list)
	}
	return err
}

// packClient makes the lanes of the device that leads to the server, and packs them. The
// server is taken to have the same transports.
func (ep *Endpoint) packClient(a uct.PackArgs, dst []byte) (int, error) {
	w := ep.w
	mirror := w.describe(func(i *iface) bool { return i.attr.Resource.Device == a.Device })
	if len(mirror.Devices) == 0 {
		return 0, fmt.Errorf("ucp: device %s leads to %v, but no transport in use is on it: %w", a.Device, ep.pair.conn.remote, ucs.ErrUnreachable)
	}
	rules := laneRules{cm: true, local: a.LocalAddr.Addr(), device: a.Device, origin: uct.OriginManager}
	for {
		ep.closeLanes(false)
		ep.setRefused(nil)
		if err := ep.connectBy(&mirror, rules); err != nil {
			return 0, err
		}
		packed, err := ep.packConn(nil, ep.pair.number)
		switch {
		case err != nil:
			return 0, err
		case len(packed) <= len(dst):
			return copy(dst, packed), nil
		case rules.messages:
			return 0, fmt.Errorf("ucp: connection data of %d bytes, the limit is %d: %w", len(packed), len(dst), ucs.ErrBufferTooSmall)
		}
		rules.messages = true
	}
}

// onConnected is told what the server has said, or why it will not.
func (ep *Endpoint) onConnected(u uct.ConnEndpoint, a uct.ConnectedArgs) {
	c := ep.conn()
	if c == nil || ep.gone() != nil {
		return
	}
	err := a.Err
	if err == nil {
		if err = ep.joinServer(&a); err != nil {
			err = fmt.Errorf("connecting to %v: %w", c.remote, err)
		}
	} else if u.Close(); !errors.Is(err, ucs.ErrRejected) {
		ep.closeLanes(false)
		if err = ep.tryManager(err); err == nil {
			return
		}
	}
	if err != nil {
		ep.fail(err)
	}
}

// joinServer connects the lanes with the ends that the server has made.
func (ep *Endpoint) joinServer(a *uct.ConnectedArgs) error {
	c := ep.pair.conn
	d, err := parseConn(a.Private, a.RemoteDeviceAddr)
	if err != nil {
		return err
	}
	if ErrMode(d.ErrMode) != ep.errMode && d.ErrMode <= proto.ErrModePeer {
		return fmt.Errorf("the server's endpoint has error mode %d, this one %d: %w", d.ErrMode, ep.errMode, ucs.ErrUnsupported)
	}
	if err := ep.join(&d.Address, ep.pair.number, nil); err != nil {
		return err
	}
	if err := c.uct.Notify(); err != nil {
		return err
	}
	c.serverID = d.Address.ClientID
	ep.connected(d.EpID)
	c.stage = connShared
	if c.all = ep.w.followDevices(&d); !c.all {
		ep.paired()
	}
	return nil
}
