package ucp

import (
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// relane chooses the lanes toward an address, where it is that of a request for the ends in
// it. Those that lead there already are kept. If that for messages is none of them it carries
// the wireup messages until the peer is done with them, too.
func (ep *Endpoint) relane(addr, ends *proto.WorkerAddress, origin uct.Origin) error {
	old, am := ep.lanes, ep.amLane()
	rules := laneRules{cm: true, spare: old, ends: ends, mutual: ends == nil, origin: origin}
	ep.setRefused(nil)
	if err := ep.connectBy(addr, rules); err != nil {
		ep.lanes = old
		return err
	}
	for k := range old {
		switch kept := (&laneRules{spare: ep.lanes}).isSpare(old[k]); {
		case kept:
		case uint8(k) == am:
			ep.pair.aux = old[k]
		default:
			old[k].uct.Close()
		}
	}
	return nil
}

// onPreRequest is told by a server what it has, and asks for lanes to that.
func (w *Worker) onPreRequest(src *uct.Source, m *proto.Wireup, message []byte) {
	ep := w.caller(src, m, true, connShared)
	if ep == nil {
		w.refuseDevices(src, m)
		return
	}
	from := w.sourceOf(src)
	w.doubt(from, &m.Address)
	if w.keepBack(from, &m.Address, message, false) {
		return
	}
	if err := ep.relane(m.Address.Clone(), nil, from.origin()); err != nil {
		ep.fail(err)
		return
	}
	ep.pair.conn.stage = connAgreeing
	if err := ep.requestWireup(); err != nil {
		ep.fail(err)
	}
}

// onConnRequest is asked by a client for lanes.
func (w *Worker) onConnRequest(src *uct.Source, m *proto.Wireup, message []byte) {
	ep := w.caller(src, m, false, connShared)
	if ep == nil {
		return
	}
	from := w.sourceOf(src)
	w.doubtBut(from, &m.Address, true)
	if w.keepBack(from, &m.Address, message, false) {
		return
	}
	ep.pair.conn.stage = connAgreeing
	err := ep.relane(m.Address.Clone(), &m.Address, from.origin())
	if err == nil {
		err = ep.answerPairs(m)
	}
	if err != nil {
		ep.fail(err)
	}
}

// caller returns the endpoint that a wireup message of its peer is for, nil if it is for
// none that waits for it.
func (w *Worker) caller(src *uct.Source, m *proto.Wireup, client bool, stage connStage) *Endpoint {
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.conn() == nil || ep.gone() != nil {
		w.stats.Dropped++
		return nil
	}
	c := ep.conn()
	if c.client != client || c.stage != stage || m.SrcEp != ep.remoteID || m.Address.UUID == 0 {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, ep) {
		return nil
	}
	known := ep.peer.known
	if known.uuid != 0 && known.uuid != m.Address.UUID {
		w.refused(w.sourceOf(src), ledger.Claim)
		return nil
	}
	known.uuid = m.Address.UUID
	return ep
}
