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
// of these it is not made, and a peer that exists asks again. Numbers are kept for peers that the application has made endpoints to,
// as long as the interface lives: 1.13.1 ends its process when one comes twice.

// peer is an interface at the other end.
type peer struct {
	key  Peer
	next uint32 // conn_sn of the next endpoint that the application makes
	n    int    // endpoints
	own  bool   // the application has made some
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
	// Of how many addresses have how many.
	embryosOf, passiveOf tally

	closed list // likewise
	quiet  int64
	// forgotten are peers whose number must not be used again, although all that they
	// have made is gone: so many as it takes to make use of that unlikely.
	forgotten []*peer
	oldest    int // of them, once there are maxForgotten
}

const maxForgotten = 1 << 12

func (ps *peers) init() {
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

// put forgets a peer that got has made and nobody uses.
func (ps *peers) put(p *peer) {
	if p.n != 0 || p.own {
		return
	}
	if p.next == 0 {
		delete(ps.byKey, p.key)
		return
	}
	if len(ps.forgotten) < maxForgotten {
		ps.forgotten = append(ps.forgotten, p)
		return
	}
	old := ps.forgotten[ps.oldest]
	ps.forgotten[ps.oldest] = p
	ps.oldest = (ps.oldest + 1) % maxForgotten
	if old.n == 0 && !old.own && ps.byKey[old.key] == old {
		delete(ps.byKey, old.key)
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
