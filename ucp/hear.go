package ucp

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
)

// Who asks for an endpoint, or after one, and whether that is answered.

// whoAsks is who has sent a request, as far as that is believed.
type whoAsks struct {
	peer  *peer                // nil for nobody that is known
	said  *proto.WorkerAddress // what he has said of himself, nil if all of that is believed
	roams bool                 // he may be that peer, and may be anybody
	later bool                 // the request is kept back
}

// hear decides whether to do what a peer asks for, in what order it costs: first how
// often it has asked, then whether it has proved that it may, then whether the worker is
// open to who it says it is, and only then whether it is that. It leaves in the address
// what is believed. The error drops the connection.
func (w *Worker) hear(from *source, m *proto.Wireup, message []byte) (whoAsks, error) {
	again, proved := from.again(), false
	if again {
		proved = from.kept.proved
	} else {
		err := w.mayAsk(from)
		if err == nil {
			proved, err = w.proved(from, m, message)
		}
		if err != nil {
			return whoAsks{}, err
		}
	}
	p, first := w.claimed(from, &m.Address)
	if err := w.admits(from, p, proved); err != nil {
		w.notPeer(from, first)
		return whoAsks{}, err
	}
	q := whoAsks{said: w.doubt(from, &m.Address)}
	p, second := w.claimed(from, &m.Address)
	w.notPeer(from, first || second)
	if q.peer = p; p == nil && proved && m.Type == proto.WireupRequest {
		q.peer = w.roamer(from, q.said, m)
		q.roams = q.peer != nil
	}
	err := w.admits(from, q.peer, proved)
	q.later = err == nil && !again && w.keepBack(from, &m.Address, message, proved)
	return q, err
}

// notPeer counts that who asks has not the certificate of whom he says that he is.
func (w *Worker) notPeer(from *source, so bool) {
	if so && w.refused(from, ledger.Claim) {
		w.ctx.log.Diag("a peer's certificate does not belong to the peer that its request names: treating it as another peer",
			zap.String("worker", w.name), zap.Stringer("from", from.pays().account.Source()))
	}
}

// claimed returns the peer that has sent a request: who goes by its uuid and has an
// entry of its address, as far as that is believed; nil for nobody. Requests through
// memory of ours are believed also if the application gave another part of the
// peer's address. other says that the address is of a peer with another certificate.
func (w *Worker) claimed(from *source, addr *proto.WorkerAddress) (p *peer, other bool) {
	p = w.find(addr.UUID, entriesOf(addr))
	if p != nil && !p.provenBy(from) {
		return nil, true
	}
	if p == nil && from.uct == nil {
		p = w.vouchedFor(addr.UUID)
	}
	return p, false
}
