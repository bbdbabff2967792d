//go:build linux

package flow

// Connection numbers (conn_sn) and the bounds on the endpoints that peers make. Each side numbers
// the endpoints that it makes to the other side, for each path, from 0 on. Two endpoints with the
// same number are the two sides of one connection, no matter which was made first. So an endpoint
// that the application opens may exist already, made by the peer's CREQ, and a CREQ may belong to
// an endpoint that the application has made (ucs_conn_match of src/ucs/datastruct/conn_match.c,
// used by ud_iface.c).
//
// Any host can send a CREQ, with any sender written in it. The number of endpoints that CREQs make
// is bounded by the limits of Config. At a limit a new endpoint evicts one of these: an embryo from
// whose peer nothing was received in embryoGrace; an endpoint from whose peer nothing was received
// for the linger time of closed endpoints; an endpoint of an address that has many, and more than
// the address of the new endpoint (account.go). If none of these exists, no endpoint is made, and a
// real peer retransmits its CREQ.
//
// C UCX 1.13.1 ends its process when a number comes twice. So the next number is remembered even
// for peers to which no endpoint is left, but only for a limited number of peers: each peer that is
// answered gets an endpoint of the layer above, and an attacker can make any number of peers appear
// and disappear.

// peer is a remote interface, on one path.
type peer struct {
	key  Peer
	next uint32 // conn_sn of the next endpoint that the application makes
	n    int    // number of endpoints
	own  bool   // the application has made an endpoint
	left uint32 // how often the last endpoint was removed
}

type connKey struct {
	p  *peer
	sn uint32
}

type peers struct {
	byKey map[Peer]*peer
	conns map[connKey]*Endpoint // endpoints by connection number

	passive  int                   // number of passive endpoints
	embryos  list                  // the oldest first
	accounts map[[24]byte]*account // accounts by address
	ranking  ranking               // all passive endpoints
	heavy    []*account            // the addresses with at least ps.large passive endpoints
	large    int
	// The distributions of embryos and of passive endpoints over addresses.
	embryosOf, passiveOf histogram

	closed list // closed endpoints, the oldest first
	// Peers without endpoints whose numbers must not be used again, enough of them to make the
	// reuse of a number unlikely. The field own has the peers to which the application has made
	// endpoints. The field others has the rest, which cannot evict a peer from own.
	own, others memory
}

const (
	maxOwn       = 1 << 16
	maxForgotten = 1 << 12
)

// memory is a ring of the latest peers whose last endpoint was removed.
type memory struct {
	list   []removedPeer
	oldest int // index of the oldest entry, once the ring is full
}

// removedPeer records that the last endpoint of a peer was removed. It is stale when p.left has changed
// since.
type removedPeer struct {
	p    *peer
	left uint32
}

// keep adds a peer to a ring of size most. If the ring is full, old is the entry that was replaced.
func (m *memory) keep(p *peer, most int) (old removedPeer, full bool) {
	x := removedPeer{p, p.left}
	if len(m.list) < most {
		m.list = append(m.list, x)
		return removedPeer{}, false
	}
	old, m.list[m.oldest] = m.list[m.oldest], x
	m.oldest = (m.oldest + 1) % most
	return old, true
}

func (ps *peers) init(maxPassive int) {
	ps.large = max(maxPassive/heavyPart, 1)
	ps.byKey = make(map[Peer]*peer)
	ps.conns = make(map[connKey]*Endpoint)
	ps.accounts = make(map[[24]byte]*account)
}

// get returns the peer of a key. It makes the peer if there is none.
func (ps *peers) get(key Peer) *peer {
	p := ps.byKey[key]
	if p == nil {
		p = &peer{key: key}
		ps.byKey[key] = p
	}
	return p
}

// put releases a peer of get that has no endpoints. The peer is forgotten at once if no number was
// used, else when newer ones replace it in the memory.
func (ps *peers) put(p *peer) {
	if p.n != 0 {
		return
	}
	if p.next == 0 {
		delete(ps.byKey, p.key)
		return
	}
	m, most := &ps.others, maxForgotten
	if p.own {
		m, most = &ps.own, maxOwn
	}
	p.left++
	old, full := m.keep(p, most)
	if full && old.p.n == 0 && old.p.left == old.left {
		delete(ps.byKey, old.p.key)
	}
}

// find returns the endpoint of a connection number, nil if there is none.
func (ps *peers) find(p *peer, sn uint32) *Endpoint { return ps.conns[connKey{p, sn}] }

// lookup returns the endpoint of a peer's connection number, nil if there is no such endpoint or
// peer.
func (ps *peers) lookup(key Peer, sn uint32) *Endpoint {
	if p := ps.byKey[key]; p != nil {
		return ps.find(p, sn)
	}
	return nil
}

func (ps *peers) add(p *peer, e *Endpoint) {
	e.peer = p
	p.n++
	ps.conns[connKey{p, e.connSN}] = e
}

func (ps *peers) remove(e *Endpoint) {
	p := e.peer
	if p == nil {
		return
	}
	e.peer = nil
	p.n--
	delete(ps.conns, connKey{p, e.connSN})
	ps.put(p)
}

// confirm makes an embryo, whose peer has answered, a normal endpoint.
func (it *Iface) confirm(e *Endpoint) {
	if e.is(halfOpen) {
		e.state &^= halfOpen
		it.peers.embryos.drop(e, linkAge)
		it.peers.hatched(e.account)
	}
}

// adopt hands a passive endpoint over to the application.
func (it *Iface) adopt(e *Endpoint) {
	it.confirm(e)
	e.state &^= passive
	it.peers.discharge(e)
}
