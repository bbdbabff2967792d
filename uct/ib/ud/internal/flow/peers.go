//go:build linux

package flow

// Connection numbers (conn_sn) and the bounds on what peers make. Each side numbers the endpoints
// that it makes to the other side, for each path, from 0 on. Two endpoints with the same number are
// the two ends of one connection, no matter which was made first. So an endpoint that the
// application opens may exist already, made by the peer's CREQ, and a CREQ may belong to an
// endpoint that the application has made (ucs_conn_match of src/ucs/datastruct/conn_match.c, used
// by ud_iface.c).
//
// Any host can send a CREQ, with any sender written in it. The number of endpoints that CREQs make
// is bounded by the limits of Config. At a limit a new endpoint evicts one of these: an embryo from
// which nothing was received in embryoTime; an endpoint from which nothing was received for the
// linger time of closed endpoints; an endpoint of an address that has far more than the newcomer's
// (burden.go). If none of these exists, no endpoint is made, and a peer that exists repeats its
// CREQ.
//
// C UCX 1.13.1 ends its process when a number comes twice. So the next number is remembered even
// for peers to which no endpoint is left, but only for a limited number of peers: each peer that is
// answered gets an endpoint of the layer above, and an attacker can make any number of peers come
// and go.

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
	conns map[connKey]*Endpoint

	passive int  // number of passive endpoints
	embryos list // the oldest first
	burdens map[[24]byte]*burden
	ranking ranking   // all passive endpoints
	heavy   []*burden // the addresses with at least large passive endpoints
	large   int
	// The distributions of embryos and of passive endpoints over addresses.
	embryosOf, passiveOf tally

	closed list // closed endpoints, the oldest first
	// Peers without endpoints whose numbers must not be used again, enough of them to make a
	// repeated number unlikely. own has the peers to which the application has made endpoints,
	// others the rest, which cannot evict an own peer.
	own, others memory
}

const (
	maxOwn       = 1 << 16
	maxForgotten = 1 << 12
)

// memory is a ring of the latest peers whose last endpoint was removed.
type memory struct {
	list   []memo
	oldest int // index of the oldest entry, once the ring is full
}

// memo is a peer at the removal of its last endpoint. It is stale when p.left has changed since.
type memo struct {
	p    *peer
	left uint32
}

// keep adds a peer. If the ring is full, old is the entry that was replaced.
func (m *memory) keep(p *peer, most int) (old memo, full bool) {
	x := memo{p, p.left}
	if len(m.list) < most {
		m.list = append(m.list, x)
		return memo{}, false
	}
	old, m.list[m.oldest] = m.list[m.oldest], x
	m.oldest = (m.oldest + 1) % most
	return old, true
}

func (ps *peers) init(maxPassive int) {
	ps.large = max(maxPassive/heavyPart, 1)
	ps.byKey = make(map[Peer]*peer)
	ps.conns = make(map[connKey]*Endpoint)
	ps.burdens = make(map[[24]byte]*burden)
}

// get returns the peer of a key, which it makes if there is none.
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
	if e.is(embryo) {
		e.state &^= embryo
		it.peers.embryos.drop(e, linkAge)
		it.peers.hatched(e.burden)
	}
}

// adopt makes a passive endpoint the application's.
func (it *Iface) adopt(e *Endpoint) {
	it.confirm(e)
	e.state &^= passive
	it.peers.discharge(e)
}
