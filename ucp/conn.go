package ucp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Connections by socket address. The client knows the socket address that the server listens on. A
// connection manager (uct.ConnManager) carries the first data that the two sides exchange
// (proto.CMData), and afterwards only reports the end of the connection. The first lanes, agreed on
// by that data, use the device that the connection goes over. The rest of the handshake agrees on
// better lanes by messages over these lanes (package connect). The first lane for messages then
// carries the wireup messages. A close of the endpoint flushes the lanes and then ends the manager's
// connection. The close is done when the peer has ended its side of the connection.

// connection is the state of an endpoint that a connection manager has made.
type connection struct {
	uct uct.ConnEndpoint // nil before the connection exists, and after its end

	remote, local netip.AddrPort // as the application gave them; after the connection, its addresses
	id            uint64         // client or server id that is sent to the peer
	sendID        bool           // whether id is sent
	serverID      uint64         // id that the server has sent
	manager       int            // index of the manager in use
	device        string         // local device that the connection of a server's endpoint arrived at

	gone bool // the peer has ended the manager's connection
}

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

// maxRounds is the most progress rounds for which the report about a departed endpoint is delayed.
// They suffice to receive what a ring in shared memory holds. Without a limit, other peers that
// keep the worker busy could delay the report forever.
const maxRounds = 1000

// manager is a connection manager of a worker.
type manager struct {
	name string
	uct  uct.ConnManager // nil if the manager could not be opened
	err  error           // why the manager could not be opened
}

// disconnectManager closes the manager's connection of an endpoint at once, and keeps its addresses
// for LocalAddr and RemoteAddr.
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
	ep.w.conns.reportDelayed(ep, life.Left, err)
}

// reportDelayed reports an event of the endpoint's life after the next progress round in which
// nothing arrives, or after maxRounds rounds. Until then messages that the peer sent before are
// received.
func (cs *connState) reportDelayed(ep *Endpoint, ev life.Event, err error) {
	if n := ep.ensureExtra(); n.ending == nil {
		n.ending = err
	}
	ep.w.conns.departed = append(ep.w.conns.departed, departed{ep, ev, err, maxRounds})
	ep.w.due.Store(true)
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
			if s := p.ep.life.Stage; p.ep.needs&needLanes != 0 && (s == life.Draining || s == life.Flushing) {
				p.event = life.Lost // the flush of the close waits for lanes, which nobody connects any more
			}
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

// newConnEndpoint makes an endpoint for a connection by socket address, for a client or a server. It
// has no lanes yet.
func (cs *connState) newConnEndpoint(p *EndpointParams, c *connection, role connect.Role) (*Endpoint, error) {
	w := cs.w
	ep := &Endpoint{
		w: w, errMode: p.ErrMode, life: life.End{Stage: life.Open, Managed: true}, needs: needID | needLanes,
		ue: refuse{}, cfg: &noLanes, dest: noDestination, connSN: proto.ConnSNNone,
		pair: &pairing{conn: c}, handshake: connect.End{Role: role, Stage: connect.Starting}, onError: p.OnError, userData: p.UserData,
	}
	ep.setName(p.Name)
	id := w.endpoints.Put(ep)
	if id == 0 {
		return nil, fmt.Errorf("ucp: too many endpoints: %w", ucs.ErrExceedsLimit)
	}
	ep.localID = proto.EndpointID(id)
	ep.w.peers.Add((*peerEnd)(ep), ep.w.peers.NewUnidentified()) // the peer's first message identifies it
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
		lanes: proto.LaneMap{AM: proto.NullLane, Wireup: proto.NullLane, Keepalive: proto.NullLane},
		short: -1, shortAM: -1, mapFrom: never,
	}
	noDestination = &destination{address: new(proto.WorkerAddress)}
)

// packConn packs the data about an endpoint and its lanes that a connection manager carries to the
// other side. The parameter like is the data received from the other side, nil for the client,
// which sends first; number returns the peer's number of a lane.
func (cs *connState) packConn(ep *Endpoint, like *proto.CMData, number func(lane int) uint8) ([]byte, error) {
	w := ep.w
	addr, err := ep.w.handshakes.laneAddress(ep, allLanes, number)
	if err != nil {
		return nil, err
	}
	addr.Version = proto.AddressV1 // all releases read version 1
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

// parseConn parses private, the connection data received from the other side. The data contains no
// device address; device is the other side's device address as the manager knows it.
func (cs *connState) parseConn(private, device []byte) (proto.CMData, error) {
	d, err := proto.ParseCMData(private, cs.knows)
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

// dial makes an endpoint that connects to the socket address of a server.
func (cs *connState) dial(p *EndpointParams) (*Endpoint, error) {
	w := cs.w
	if !p.RemoteAddr.IsValid() || p.RemoteAddr.Port() == 0 {
		return nil, fmt.Errorf("ucp: endpoint to address %v: %w", p.RemoteAddr, ucs.ErrInvalidParam)
	}
	c := &connection{remote: p.RemoteAddr, local: p.LocalAddr, id: p.ClientID, manager: -1}
	if c.sendID = p.Flags&EndpointSendClientID != 0 || c.id != 0; c.id == 0 {
		c.id = w.params.ClientID
	}
	ep, err := cs.newConnEndpoint(p, c, connect.Client)
	if err != nil {
		return nil, err
	}
	if err := cs.tryManager(ep, nil); err != nil {
		ep.w.ends.destroy(ep, err)
		return nil, err
	}
	return ep, nil
}

// tryManager starts connecting by the next usable connection manager. The parameter before is the
// error of the manager tried last, nil at the first call. If no manager is left, tryManager returns
// before, or if that is nil the first error of a manager, or an error that there is no manager.
func (cs *connState) tryManager(ep *Endpoint, before error) error {
	c := ep.pair.conn
	list := ep.w.conns.connManagers()
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

// packClient is called by the connection manager when the device that leads to the server is known.
// It makes the lanes of that device, packs the client's data into dst, and returns the length in
// bytes. It assumes that the server has the same transports as this worker.
func (ep *Endpoint) packClient(a uct.PackArgs, dst []byte) (int, error) {
	w := ep.w
	mirror := w.own.describe(func(i *iface) bool { return i.attr.Resource.Device == a.Device })
	if len(mirror.Devices) == 0 {
		return 0, fmt.Errorf("ucp: device %s is on the route to %v, but no transport in use has it: %w", a.Device, ep.pair.conn.remote, ucs.ErrUnreachable)
	}
	rules := laneRules{cm: true, local: a.LocalAddr.Addr(), device: a.Device, origin: uct.OriginManager}
	for {
		ep.w.ends.closeLanes(ep, false)
		ep.setRefused(nil)
		if err := ep.w.wireups.connectBy(ep, &mirror, rules); err != nil {
			return 0, err
		}
		packed, err := ep.w.conns.packConn(ep, nil, ep.pair.number)
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

// onConnected is called by the connection manager with the server's data, or with an error if the
// connection could not be made. Unless the server has rejected the client, the client then tries
// the next connection manager.
func (ep *Endpoint) onConnected(u uct.ConnEndpoint, a uct.ConnectedArgs) {
	c := ep.conn()
	if c == nil || ep.gone() != nil {
		return
	}
	err := a.Err
	if err == nil {
		if err = ep.w.conns.joinServer(ep, &a); err != nil {
			err = fmt.Errorf("connecting to %v: %w", c.remote, err)
		}
	} else if u.Close(); !errors.Is(err, ucs.ErrRejected) {
		ep.w.ends.closeLanes(ep, false)
		if err = ep.w.conns.tryManager(ep, err); err == nil {
			return
		}
	}
	if err != nil {
		ep.fail(err)
	}
}

// joinServer connects the lanes to the transport endpoints that the server has made, and notifies
// the server.
func (cs *connState) joinServer(ep *Endpoint, a *uct.ConnectedArgs) error {
	c := ep.pair.conn
	d, err := cs.parseConn(a.Private, a.RemoteDeviceAddr)
	if err != nil {
		return err
	}
	if ErrMode(d.ErrMode) != ep.errMode && d.ErrMode <= proto.ErrModePeer {
		return fmt.Errorf("the server's endpoint has error mode %d, this one %d: %w", d.ErrMode, ep.errMode, ucs.ErrUnsupported)
	}
	ep.handshake.AllDevices = cs.devices().Follow(&d)
	do := ep.w.handshakes.advance(ep, connect.Data)
	o := &offer{addr: &d.Address, number: ep.pair.number}
	if err := ep.w.handshakes.carryOut(ep, do&^connect.Start, o); err != nil {
		return err
	}
	c.serverID = d.Address.ClientID
	// The lanes were chosen before the server's address was known. Memory is opened to the server.
	where := *ep.dest
	where.scopes = cs.w.rights.scopesOf(&d.Address)
	ep.dest = &where
	ep.w.wireups.connected(ep, d.EpID)
	return ep.w.handshakes.carryOut(ep, do&connect.Start, nil)
}

// devices returns what the settings contribute to the decision about devices.
func (cs *connState) devices() connect.Devices {
	ctx := cs.w.ctx
	return connect.Devices{All: ctx.settings.CMUseAllDevices, Release113: ctx.peerRelease() == PeerRelease113}
}

// knows reports whether the worker has an interface of a transport.
func (cs *connState) knows(t proto.TransportID) bool {
	return slices.ContainsFunc(cs.w.ifaces, func(i *iface) bool { return i.id == t })
}

// interfaces yields the transport of each interface and the length of its address.
func (cs *connState) interfaces(yield func(proto.TransportID, int) bool) {
	for _, i := range cs.w.ifaces {
		if !yield(i.id, len(i.published)) {
			return
		}
	}
}

// sendPreRequest sends a client PRE_REQUEST, which names the interfaces that lanes may use: all
// interfaces with UCX_CM_USE_ALL_DEVICES=y, else those of the connection's device.
func (cs *connState) sendPreRequest(ep *Endpoint) error {
	offered := func(i *iface) bool {
		return ep.w.ctx.settings.CMUseAllDevices || i.attr.Resource.Device == ep.pair.conn.device
	}
	all := ep.w.own.describe(offered)
	if err := ep.w.handshakes.addEndpointAddresses(ep, &all, allLanes, ep.pair.number); err != nil { // so that the client keeps these lanes
		return err
	}
	return ep.w.wireups.sendWireup(ep, proto.WireupPreRequest, ep.remoteID, all)
}

// replaceLanes chooses new lanes toward the address in an offer. If the offer is a client's request,
// pairwise lanes are chosen for the transport endpoints in it. Existing lanes that lead to the same
// endpoints are kept. If the lane for messages is not kept, it becomes the auxiliary lane, which
// carries the wireup messages until the new lanes are connected on both sides.
func (cs *connState) replaceLanes(ep *Endpoint, o *offer) error {
	old, am := ep.lanes, ep.amLane()
	rules := laneRules{cm: true, spare: old, origin: o.from.origin()}
	if ep.handshake.Role == connect.Server {
		rules.ends = o.addr
	} else {
		rules.mutual = true
	}
	ep.setRefused(nil)
	if err := ep.w.wireups.connectBy(ep, o.addr.Clone(), rules); err != nil {
		ep.lanes = old
		return err
	}
	for k := range old {
		switch kept := (&laneRules{spare: ep.lanes}).existed(old[k]); {
		case kept:
		case uint8(k) == am:
			ep.pair.aux = old[k]
		default:
			old[k].uct.Close()
		}
	}
	return nil
}

// onMessage handles PRE_REQUEST, in which a server names all of its resources, and REQUEST, in which
// a client asks for lanes toward some of them (ev).
func (cs *connState) onMessage(src *uct.Source, m *proto.Wireup, message []byte, ev connect.Event) {
	w := cs.w
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.conn() == nil || ep.gone() != nil || m.SrcEp != ep.remoteID {
		w.stats.Dropped++
		return
	}
	do := ep.w.handshakes.foresee(ep, ev)
	switch {
	case do&connect.Drop != 0:
		w.stats.Dropped++
		if do.Err() != nil && !w.admission.spoofed(src, ep) {
			ep.w.handshakes.advance(ep, ev)
			ep.fail(do.Err())
		}
		return
	case m.Address.UUID == 0:
		w.stats.Dropped++
		return
	case w.admission.spoofed(src, ep):
		return
	case !ep.peer.Identify(m.Address.UUID):
		w.refused(w.accounts.sourceOf(src), ledger.Claim)
		return
	}
	from := w.accounts.sourceOf(src)
	w.admission.validateAddress(from, &m.Address, ev == connect.Request)
	if w.admission.deferRequest(from, &m.Address, message) {
		return
	}
	ep.w.handshakes.advance(ep, ev)
	if err := w.handshakes.carryOut(ep, do, requestOffer(from, m, nil)); err != nil {
		ep.fail(err)
	}
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
	return netip.AddrPort{}, ep.w.ends.withEndpointName(ep, fmt.Errorf("the endpoint has no socket address: %w", ucs.ErrNotConnected))
}

// ConnectWait waits until the endpoint is connected: both sides have agreed on lanes, and messages
// started on the endpoint are sent. For that the peer's worker must be progressed, too. ConnectWait
// fails if the endpoint fails. If ctx ends first its error is returned, and the connection setup
// goes on.
func (ep *Endpoint) ConnectWait(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.ConnectWait", ep == nil)
	}
	return ep.w.ends.endWith(ep, ctx, startConnectWait)
}

func startConnectWait(c *call) (*Request, error) {
	ep := c.ep
	if err := ep.usable(); err != nil {
		return nil, err
	}
	r, err := ep.w.pool.useRequest(nil)
	if err != nil {
		return nil, err
	}
	r.setEndpoint(ep)
	r.proto = connectOperation{}
	ep.submit(r)
	return r.result()
}

// connectOperation is the operation of ConnectWait: it ends when the endpoint is connected, and sends
// nothing.
type connectOperation struct{ basics }

func (connectOperation) about() protocolInfo {
	return protocolInfo{name: "connect", kind: kindFlush, needs: needID}
}

func (connectOperation) progress(r *Request) error {
	r.finish(nil)
	return nil
}
