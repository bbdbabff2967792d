//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// postShort posts a packet of 8 bytes that acknowledges, and asks for an acknowledgement if a probe is
// owed. It reports whether the queue had room. The packet carries the next number without using it,
// so that a peer that has not received all packets before that number detects the gap
// (uct_ud_ep_send_ack of ud_ep.c).
func (e *Endpoint) postShort() bool {
	it := e.it
	o := e.owed & oweTell
	if !e.is(connected) {
		e.owed &^= oweTell
		return true
	}
	if o&oweNack != 0 {
		o &^= oweEnd // sent after the NACK: a packet can be only one of them (wire.Header.Kind)
	}
	h := wire.NewHeader(e.dest, 0, e.psn, e.got)
	solicited := false
	if o&oweProbe != 0 {
		h |= wire.FlagAckReq
		solicited = e.every >= it.poke
	}
	if o&oweNack != 0 {
		h |= wire.FlagNack
	}
	if o&oweEnd != 0 {
		h |= wire.FlagEnd
		solicited = true
	}
	h.Store(it.buf[:])
	if !it.port.Post(e, it.buf[:wire.HeaderLen], solicited) {
		return false
	}
	switch {
	case o&oweEnd != 0:
		it.Counters.Ends++
	case o&oweNack != 0:
		e.nackedFrom, e.nackedAt = e.got, it.now
		it.Counters.Nacks++
	case o&oweProbe != 0:
		it.Counters.Probes++
	default:
		it.Counters.Acks++
	}
	e.owed &^= o
	return true
}

// refuse notifies the peer that the endpoint does not exist any more. It reports whether the queue
// had room. The packet is sent once; a peer that does not receive it detects the end by its
// timeout.
func (e *Endpoint) refuse() bool {
	it := e.it
	if !e.is(connected) {
		return true
	}
	wire.NewHeader(e.dest, wire.FlagRefuse, e.psn, e.got).Store(it.buf[:])
	if !it.port.Post(e, it.buf[:wire.HeaderLen], true) {
		return false
	}
	it.Counters.Refusals++
	return true
}

// postCREQ posts a connection request. It is solicited, as all packets of connection setup are,
// because the peer may sleep.
func (e *Endpoint) postCREQ(psn wire.PSN, ask bool) bool {
	it := e.it
	h := wire.NewHeader(wire.NullID, wire.FlagCtl, psn, e.got).WithAck(e.got, ask)
	c := wire.CREQ{QPN: it.cfg.QPN, EP: e.id, ConnSN: e.connSN, Path: e.path, Origin: it.cfg.Origin, DevAddr: it.cfg.DevAddr}
	if !it.port.Post(e, wire.AppendCREQ(it.buf[:0], h, &c), true) {
		return false
	}
	it.Counters.CREQs++
	return true
}

func (e *Endpoint) postCREP(psn wire.PSN, ask bool) bool {
	it := e.it
	h := wire.NewHeader(e.dest, wire.FlagCtl, psn, e.got).WithAck(e.got, ask)
	c := wire.CREP{EP: e.id, Origin: it.cfg.Origin}
	if !it.port.Post(e, wire.AppendCREP(it.buf[:0], h, &c), true) {
		return false
	}
	it.Counters.CREPs++
	return true
}

func (e *Endpoint) postKeepalive(psn wire.PSN, ask bool) bool {
	it := e.it
	h := wire.NewHeader(e.dest, 0, psn, e.got).WithAck(e.got, ask)
	if !it.port.Post(e, wire.AppendKeepalive(it.buf[:0], h), false) {
		return false
	}
	it.Counters.Keepalives++
	return true
}
