//go:build linux

package flow

// Both sides number the endpoints that they make to each other, on each path, from 0
// on: conn_sn. Those with the same number are the two ends of one connection, whoever
// was first. So an endpoint that the application makes may be there already, made by
// the peer's CREQ; and a CREQ may be for one that the application has made
// (ucs_conn_match of src/ucs/datastruct/conn_match.c, used by ud_iface.c).
//
// CREQs come from anyone, with any sender written in them. What they make is bounded:
// endpoints by the limits of Config, and a new one drives out an embryo, of which
// nothing was heard in embryoTime, or one of which nothing was heard for as long as
// closed ones linger, or one of an address that has far more (burden.go). If there is none
// of these it is not made, and a peer that exists asks again.
//
// 1.13.1 ends its process when a number comes twice. So what comes next is known also of
// peers to which no endpoint is left, as far as they are not too many: whoever is answered gets
// an endpoint of the layer above, and any number of them can be had to come and go.

// peer is an interface at the other end.
type peer struct {
	key  Peer
	next uint32 // conn_sn of the next endpoint that the application makes
	n    int    // endpoints
	own  bool   // the application has made some
	left uint32 // how often the last of them has gone
}

type connKey struct {
	p  *peer
	sn uint32
}

type peers struct {
	byKey map[Peer]*peer
	conns map[connKey]*Endpoint

	passive int  // endpoints that are
	embryos list // the oldest first
	burdens map[[24]byte]*burden
	ranking ranking   // of those that are passive
	heavy   []*burden // addresses with a large part of these,
	large   int       // which is so many
	// Of how many addresses have how many.
	embryosOf, passiveOf tally

	closed list // likewise
	// Peers whose number must not be used again, although nothing is left of them, so many as
	// it takes to make use of that unlikely: those whom the application has made endpoints to,
	// and others, who cannot drive them out.
	own, others memory
}

const (
	maxOwn       = 1 << 16
	maxForgotten = 1 << 12
)

// memory is the last peers of whom nothing is left.
type memory struct {
	list   []memo
	oldest int // once there are as many as there may be
}

// memo is a peer as it was when its last endpoint went. It says nothing any more when there
// were others since.
type memo struct {
	p    *peer
	left uint32
}

// keep adds a peer. old is what gives way, if full.
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

// get is the peer of a key, made if need be.
func (ps *peers) get(key Peer) *peer {
	p := ps.byKey[key]
	if p == nil {
		p = &peer{key: key}
		ps.byKey[key] = p
	}
	return p
}

// put forgets a peer that get has made and nobody uses, at once or some day.
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

// find is the endpoint of a number.
func (ps *peers) find(p *peer, sn uint32) *Endpoint { return ps.conns[connKey{p, sn}] }

// lookup is the endpoint of a peer's number, nil if there is none or no such peer.
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

// confirm is told that an embryo's peer has answered.
func (it *Iface) confirm(e *Endpoint) {
	if e.is(embryo) {
		e.state &^= embryo
		it.peers.embryos.drop(e, linkAge)
		it.peers.hatched(e.burden)
	}
}

// adopt makes an endpoint of a peer's the application's.
func (it *Iface) adopt(e *Endpoint) {
	it.confirm(e)
	e.state &^= passive
	it.peers.discharge(e)
}
