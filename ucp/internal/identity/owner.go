package identity

import "github.com/ucx-go/ucx/ucp/internal/admit"

// Source is a connection that messages of peers come on.
type Source interface {
	// Certificate returns what the sender of the connection has proved by TLS, nil if nothing. known
	// is false if the connection is over or tells no senders apart, as memory of this process does.
	Certificate() (c *admit.Certificate, known bool)
}

// Owner is the peer that a connection belongs to.
type Owner[E Endpoint] struct {
	peer    *Peer[E] // nil if there is none yet
	unknown bool     // the connection has named an endpoint of a peer that is elsewhere, before it had a peer
}

// Is reports whether the connection belongs to a peer. In the usual case, of a peer that was not
// merged, it costs a comparison. Otherwise the result can be false although the connection
// belongs to the peer; then Peer tells.
func (o *Owner[E]) Is(p *Peer[E]) bool { return o.peer != nil && o.peer == p }

// Peer returns the peer that the connection belongs to, nil if that is not known.
func (o *Owner[E]) Peer() *Peer[E] { return o.peer.Canonical() }

// Decided reports whether the connection has a peer, or is known to be of none that was named on it.
func (o *Owner[E]) Decided() bool { return o.peer != nil || o.unknown }

// Set makes p the peer of the connection.
func (o *Owner[E]) Set(p *Peer[E]) { o.peer = p }

// SetUnknown records that the connection, which has no peer, has named an endpoint of a peer that is
// elsewhere. Later messages on the connection are then not examined again.
func (o *Owner[E]) SetUnknown() { o.unknown = true }

// Bind records that a wireup message of a peer came on a connection. If the connection has no
// peer, the connection belongs to p from now on. If it belongs to another peer of the same uuid, the
// two are one, and are merged unless the application has made endpoints to each.
func (o *Owner[E]) Bind(t *Table[E], p *Peer[E], from Source) {
	if c, _ := from.Certificate(); c != nil && p.certificate() == nil {
		p.ensureExtra().certificate = c
	}
	switch q := o.Peer(); {
	case q == nil, o.Forgotten(p):
		o.Set(p)
	case q == p || q.identity != p.identity:
	case !q.Trusted():
		t.Merge(q, p)
	case !p.Trusted():
		t.Merge(p, q)
		p = q
	}
	p.LastSource = from
}

// SetEnded records that the connection has ended: its peer, and other peers of the uuid, forget it.
func (o *Owner[E]) SetEnded(from Source) {
	p := o.Peer()
	if p == nil {
		return
	}
	// The connection may be the last one of another peer of the uuid, too, which may be merged with
	// this one later.
	for _, q := range p.identity.peers {
		if q.LastSource == from {
			q.LastSource = nil
		}
	}
	if p.LastSource == from {
		p.LastSource = nil
	}
}

// IsOther reports whether the connection is known to belong to another peer than p: one with another
// uuid, or one with the same uuid that the application knows by another address.
func (o *Owner[E]) IsOther(p *Peer[E]) bool {
	q := o.Peer()
	return q != nil && q != p && !o.Forgotten(p) && (q.identity != p.identity || q.Trusted() && p.Trusted())
}

// Forgotten reports whether the peer that the connection belongs to was forgotten, and p, which goes
// by the same uuid, may be that peer again.
func (o *Owner[E]) Forgotten(p *Peer[E]) bool {
	q := o.Peer()
	return q != nil && q != p && q.UUID() == p.UUID() && len(q.endpoints) == 0 && !q.Allowed
}

// ProvenBy reports whether a connection can be the peer's. A peer that first connected with a
// certificate does not come without that certificate. Messages through memory of this process need
// no certificate.
func (p *Peer[E]) ProvenBy(from Source) bool {
	first := p.certificate()
	if first == nil {
		return true
	}
	c, known := from.Certificate()
	return !known || c != nil && *c == *first
}
