package ucp

import (
	"context"
	"fmt"
	"net/netip"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Connections by socket address. The client knows the socket address that the server listens on. A
// connection manager (uct.ConnManager) carries the first data that the two sides exchange
// (proto.CMData), and afterwards nothing but the end of the connection. The first lanes, agreed on
// by that data, use the device that the connection goes over. Over these lanes the server then
// names all of its resources, and the two sides agree on better lanes, as C UCX does with
// UCX_CM_USE_ALL_DEVICES=y:
//
//	client                              server
//	   data: ends of its lanes ──►         the application accepts
//	   connects its ends    ◄── data: the other ends, connected
//	   notification ──►
//	                        ◄── PRE_REQUEST: all of its resources
//	   REQUEST: lanes, their ends ──►
//	                        ◄── REPLY: the other ends
//	   ACK ──►
//
// Operations wait until this exchange is over. Lanes that are chosen again are kept. The first lane
// for messages carries the wireup messages. With UCX_CM_USE_ALL_DEVICES=n there are no messages
// after the notification. A close ends the manager's connection when everything is flushed. The
// close is over when the peer has ended its side.

// connection is the state of an endpoint that a connection manager has made.
type connection struct {
	uct    uct.ConnEndpoint // nil before the connection exists, and after its end
	client bool
	all    bool // lanes of all devices are agreed on after the notification (conn_client.go)
	stage  connStage

	remote, local netip.AddrPort // as the application gave them; after the end, those of the connection
	id            uint64         // id that is sent to the peer
	sendID        bool           // whether id is sent
	serverID      uint64         // id that the server has sent
	manager       int            // index of the manager in use
	device        string         // local device that the connection of a server's endpoint arrived at

	gone bool // the peer has ended the manager's connection
}

// connStage is the stage of the setup of a connection.
type connStage uint8

const (
	connCalling  connStage = iota // the client waits for the server's data, the server for the notification
	connShared                    // both have the first lanes: the client waits for PRE_REQUEST, the server for REQUEST
	connAgreeing                  // the client waits for REPLY, the server for ACK
	connOpen
)

// connState is a worker's state for connections by socket address.
type connState struct {
	managers  []manager // in the order in which they are tried
	opened    bool      // whether managers is filled in
	listeners []*Listener
	departed  []departed // endpoints whose peers have disconnected and may have left messages to receive
	w         *Worker
}

// departed is an endpoint whose peer has closed the connection, or a lane. Messages that the peer
// sent before may still be in shared memory. They are received before the event is reported.
type departed struct {
	ep     *Endpoint
	event  life.Event
	err    error
	rounds int // progress rounds left to wait for one in which nothing arrives
}

// maxRounds is enough rounds to receive what a ring holds. Without a limit, other peers that keep
// the worker busy could delay the report forever.
const maxRounds = 1000

// manager is a connection manager of a worker.
type manager struct {
	name string
	uct  uct.ConnManager // nil if the manager could not be opened
	err  error           // why the manager could not be opened
}

// disconnectManager ends the manager's connection of an endpoint at once. The connection's
// addresses stay known.
func (cs *connState) disconnectManager(ep *Endpoint) {
	c := ep.conn()
	if c == nil {
		return
	}
	if u := c.uct; u != nil {
		c.uct, c.local, c.remote = nil, u.LocalAddr(), u.RemoteAddr()
		u.Close()
	}
}

// onDisconnected handles the manager's report that the peer has ended the connection.
func (ep *Endpoint) onDisconnected(_ uct.ConnEndpoint, err error) {
	c := ep.conn()
	if c == nil || c.gone {
		return
	}
	c.gone = true
	if ep.life.Stage == life.Leaving {
		ep.report(life.Left, nil)
		return
	}
	if err == nil {
		err = errDisconnected
	}
	ep.w.conns.reportQuietly(ep, life.Left, err)
}

// reportQuietly reports an event after the next progress round in which nothing arrives, or after
// maxRounds rounds.
func (cs *connState) reportQuietly(ep *Endpoint, ev life.Event, err error) {
	if n := ep.ensureExtra(); n.ending == nil {
		n.ending = err
	}
	ep.w.conns.departed = append(ep.w.conns.departed, departed{ep, ev, err, maxRounds})
}

// connFamily is the family of connections by socket address.
type connFamily struct{ noFamily }

func (connFamily) about() familyInfo { return familyInfo{name: "connection"} }

// stop closes the worker's listeners and connection managers. It returns the first error of a
// manager.
func (connFamily) stop(w *Worker) (first error) {
	for len(w.conns.listeners) > 0 {
		w.conns.listeners[0].close()
	}
	for _, m := range w.conns.managers {
		if m.uct != nil {
			if err := m.uct.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// endDeparted reports the events of departed endpoints at the end of a progress round: of all if
// nothing arrived, else of those that have waited maxRounds rounds. It returns the number of
// events.
func (cs *connState) endDeparted(arrived int) (n int) {
	list := cs.departed
	cs.departed = nil
	for _, p := range list {
		switch p.rounds--; {
		case arrived > 0 && p.rounds > 0:
			cs.departed = append(cs.departed, p)
		default:
			p.ep.report(p.event, p.ep.w.ends.endError(p.ep, p.err))
			n++
		}
	}
	return n
}

// connManagers returns the connection managers of the context's components, in the order of
// UCX_SOCKADDR_TLS_PRIORITY. The first call opens them.
func (cs *connState) connManagers() []manager {
	w := cs.w
	c := cs
	if c.opened {
		return c.managers
	}
	c.opened = true
	for _, comp := range w.ctx.connManagers() {
		m := manager{name: comp.Name()}
		if m.uct, m.err = comp.OpenConnManager(w.uctw, w.ctx.set); m.err != nil {
			w.ctx.log.Diag("connection manager not usable", zap.String("component", m.name), zap.Error(m.err))
		}
		c.managers = append(c.managers, m)
	}
	return c.managers
}

// errNoManager returns an error that says why there is no connection manager.
func errNoManager(list []manager) error {
	err := fmt.Errorf("ucp: no transport in use connects by socket address: add tcp to UCX_TLS: %w", ucs.ErrUnsupported)
	for _, m := range list {
		if m.err != nil {
			err = fmt.Errorf("%w; %s: %v", err, m.name, m.err)
		}
	}
	return err
}

// newConnEndpoint makes an endpoint by socket address, which has no lanes yet.
func (cs *connState) newConnEndpoint(p *EndpointParams, c *connection) (*Endpoint, error) {
	w := cs.w
	ep := &Endpoint{
		w: w, errMode: p.ErrMode, life: life.End{Stage: life.Open, Managed: true}, short: -1, shortAM: -1, needs: needID | needLanes,
		ue: refuse{}, cfg: &noLanes, dest: nowhere, connSN: proto.ConnSNNone,
		pair: &pairing{conn: c}, onError: p.OnError, userData: p.UserData,
	}
	ep.setName(p.Name)
	id := w.endpoints.Put(ep)
	if id == 0 {
		return nil, fmt.Errorf("ucp: too many endpoints: %w", ucs.ErrExceedsLimit)
	}
	ep.localID = proto.EndpointID(id)
	ep.w.peers.setPeer(ep, &peer{identity: new(identity)}) // the peer's first message identifies it
	w.accounts.unbound++
	for _, f := range w.families {
		f.opened(ep)
	}
	return ep, nil
}

// noLanes is the configuration of an endpoint that is not connected yet. nowhere is its
// destination.
var (
	noLanes = epConfig{
		lanes: laneMap{am: proto.NullLane, wireup: proto.NullLane, keepalive: proto.NullLane},
		short: -1, shortAM: -1, mapFrom: never,
	}
	nowhere = &destination{address: new(proto.WorkerAddress)}
)

// packConn packs the data about an endpoint and its lanes that a connection manager carries to the
// other side. like is the other side's data, nil for the client, which sends first.
func (cs *connState) packConn(ep *Endpoint, like *proto.CMData, number func(lane int) uint8) ([]byte, error) {
	w := ep.w
	addr, err := ep.w.wireups.laneAddress(ep, allLanes, number)
	if err != nil {
		return nil, err
	}
	addr.Version = proto.AddressV1 // version 1 has a form that all releases read
	addr.Flags, addr.UUID, addr.Name = 0, 0, ""
	for k := range addr.Devices {
		addr.Devices[k].Addr = nil // the manager provides the device address
	}
	d := proto.CMData{
		Version: proto.CMVersion(w.ctx.settings.SADataVersion),
		EpID:    ep.localID,
		ErrMode: proto.ErrMode(ep.errMode),
		Both:    w.ctx.settings.CMUseAllDevices,
	}
	if like != nil {
		d.Version, d.RscIndex, d.Both = like.Version, like.RscIndex, false
	}
	if c := ep.pair.conn; c.sendID {
		addr.Flags |= proto.AddressHasClientID
		addr.ClientID = c.id
	}
	d.Address = addr
	return d.Append(nil)
}

// parseConn parses the other side's connection data. device is the device address of the other
// side, as the manager knows it.
func parseConn(private, device []byte) (proto.CMData, error) {
	d, err := proto.ParseCMData(private)
	if err != nil {
		return d, err
	}
	if d.EpID == 0 {
		return d, fmt.Errorf("ucp: the connection's data names no endpoint: %w", ucs.ErrInvalidAddr)
	}
	if d.Address.NumIfaces() == 0 {
		return d, fmt.Errorf("ucp: the connection's data names no transport: %w", ucs.ErrUnreachable)
	}
	d.Address = *d.Address.Clone()
	for k := range d.Address.Devices {
		d.Address.Devices[k].Addr = device
	}
	return d, nil
}

// LocalAddr returns the local socket address of an endpoint that was made by socket
// address: that of the connection manager's connection. For other endpoints, and while the
// address is not known, the error is ucs.ErrNotConnected.
func (ep *Endpoint) LocalAddr() (netip.AddrPort, error) {
	if ep.missing() {
		return netip.AddrPort{}, errMissing("Endpoint.LocalAddr", ep == nil)
	}
	return ep.w.conns.socketAddr(ep, uct.ConnEndpoint.LocalAddr, func(c *connection) netip.AddrPort { return c.local })
}

// RemoteAddr returns the peer's socket address, under the conditions of LocalAddr.
func (ep *Endpoint) RemoteAddr() (netip.AddrPort, error) {
	if ep.missing() {
		return netip.AddrPort{}, errMissing("Endpoint.RemoteAddr", ep == nil)
	}
	return ep.w.conns.socketAddr(ep, uct.ConnEndpoint.RemoteAddr, func(c *connection) netip.AddrPort { return c.remote })
}

// ServerID returns the EndpointParams.ClientID that the server of an endpoint made with
// RemoteAddr has sent. It is 0 if the server has sent none, or before the connection is
// established; operations wait until then.
func (ep *Endpoint) ServerID() (id uint64) {
	ep.w.owner.acquireRead()
	if c := ep.conn(); c != nil {
		id = c.serverID
	}
	ep.w.owner.releaseRead()
	return id
}

func (cs *connState) socketAddr(ep *Endpoint, of func(uct.ConnEndpoint) netip.AddrPort, said func(*connection) netip.AddrPort) (netip.AddrPort, error) {
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	if c := ep.conn(); c != nil {
		if c.uct != nil {
			if a := of(c.uct); a.IsValid() {
				return a, nil
			}
		}
		if a := said(c); a.IsValid() {
			return a, nil
		}
	}
	return netip.AddrPort{}, ep.w.ends.nameIn(ep, fmt.Errorf("it has no socket address: %w", ucs.ErrNotConnected))
}

// ConnectWait waits until the endpoint is connected: both ends have agreed on lanes, and
// messages started on the endpoint are sent. For that the peer's worker must be progressed,
// too. ConnectWait fails if the endpoint fails. If ctx ends first its error is returned,
// and the connection setup goes on.
func (ep *Endpoint) ConnectWait(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.ConnectWait", ep == nil)
	}
	return ep.w.ends.endWith(ep, ctx, startReaching)
}

func startReaching(c *call) (*Request, error) {
	ep := c.ep
	if err := ep.usable(); err != nil {
		return nil, err
	}
	r, err := ep.w.pool.useRequest(nil)
	if err != nil {
		return nil, err
	}
	r.toward(ep)
	r.proto = reaching{}
	ep.submit(r)
	return r.result()
}

// reaching is an operation that needs a connected endpoint, and nothing else.
type reaching struct{ basics }

func (reaching) about() protocolInfo {
	return protocolInfo{name: "connect", kind: kindFlush, needs: needID}
}

func (reaching) progress(r *Request) error {
	r.finish(nil)
	return nil
}
