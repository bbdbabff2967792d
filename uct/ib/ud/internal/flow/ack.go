//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// acknowledge handles an acknowledgement, which says that the peer has received all packets up to
// number ack. That packet was in flight until now (uct_ud_ep_process_ack of ud_ep.c).
func (e *Endpoint) acknowledge(ack wire.PSN) {
	e.acked = ack
	if int(e.cwnd) < e.it.cfg.MaxWindow {
		e.cwnd++
	}
	e.max = ack + e.cwnd
	e.state |= lively
	e.soon()
	e.sent = e.it.now
	if e.is(halfOpen) {
		e.it.confirm(e)
	}
	e.resume()
	e.release()
}
