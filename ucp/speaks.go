package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Messages that name a request or an endpoint act on it only if they are of its
// peer, as far as that can be told. A connection belongs to one peer from the first
// wireup message on by which it is known, or the first other message that comes from
// where the peer is. Ids cannot be guessed, but who has seen one could use it.

// nobody is whose a connection is that has spoken for a peer that is elsewhere, until
// it says who it is.
var nobody = &peer{known: new(known)}

// isOf is told that a wireup message of a peer came by a connection.
func (s *source) isOf(p *peer) {
	if s.uct == nil {
		return // memory of ours does not say who wrote there
	}
	if p.certificate() == nil {
		if proved := s.certificate(); proved != nil {
			p.remember().certificate = proved
		}
	}
	switch q := s.peer.now(); {
	case q == nil, q == nobody:
		s.peer = p
	case q != p && q.known == p.known && !q.vouched():
		s.w.join(q, p)
	case q != p && q.known == p.known && !p.vouched():
		s.w.join(p, q)
		p = q
	}
	p.heard = s
}

// isAnother reports whether a connection is known to be of another peer: one with
// another uuid, or of which the application has another address.
func (s *source) isAnother(p *peer) bool {
	q := s.peer.now()
	return s.uct != nil && q != nil && q != nobody && q != p && (q.known != p.known || q.vouched() && p.vouched())
}

// foreign reports whether a message is not of the endpoint's peer, and counts that.
// It costs a comparison. A connection on which another worker has said who it is loses
// its place by such a message: ids of endpoints and requests are told to their peer
// alone, and not used again, so that nobody comes by one in good faith. Messages that
// are late name ids that are gone, and never come here.
func (w *Worker) foreign(src *uct.Source, ep *Endpoint) bool {
	if src == nil {
		return false
	}
	if s, ok := src.User.(*source); ok && s.peer != nil && s.peer == ep.peer {
		return false
	}
	return w.foreignLook(src, ep)
}

//go:noinline
func (w *Worker) foreignLook(src *uct.Source, ep *Endpoint) bool {
	l, ok := src.Owner.(uct.SourceLocator)
	if !ok && src.User == nil {
		return false // it cannot be told
	}
	s, p := w.sourceOf(src), ep.peer.now()
	hostile := false
	switch {
	case p == nil: // the worker itself
		if ok && l.SourceInfo().Local || !ok && s.peer == nil {
			return false
		}
	case s.peer != nil:
		q := s.peer.now()
		if q == p {
			s.peer = p
			return false
		}
		hostile = q != nobody && q.uuid != p.uuid
	case !ok, w.comesFrom(src, l, ep):
		if ok {
			s.peer = p
		}
		return false
	default:
		s.peer = nobody // it is not looked at again for each message
	}
	if w.refused(s, ledger.Claim) {
		w.ctx.log.Warn("message for an operation with another peer dropped", zap.String("worker", w.name), zap.String("endpoint", ep.describe()))
	}
	if hostile {
		src.Drop(fmt.Errorf("ucp: a message for an operation with another peer: %w", ucs.ErrRejected))
	}
	return true
}

// comesFrom reports whether a connection can be the peer's of an endpoint: it is one
// that the endpoint sends over, or the process fits that holds it, or the address that
// it comes from.
func (w *Worker) comesFrom(src *uct.Source, l uct.SourceLocator, ep *Endpoint) bool {
	for k := range ep.lanes {
		if h, ok := ep.lanes[k].uct.(uct.SourceHolder); ok && h.Source() == src {
			return true // we send over it
		}
	}
	info := l.SourceInfo()
	if !info.Addr.IsValid() || w.ctx.settings.CheckSource != config.Yes || ep.where == nil || ep.where.address == nil {
		return true
	}
	d := doubter{w: w, from: w.sourceOf(src), connection: l, info: info}
	if ep.process != 0 && info.Local && w.timed(d.from, func() bool { return l.HeldBy(ep.process) }) {
		return true
	}
	found := false
	ep.where.address.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		found = d.isAt(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, f.Transport)
		return !found
	})
	return found
}
