//go:build linux

package flow

// Timers. Each endpoint with packets in flight checks at intervals whether the peer has answered. A
// check that comes too early has no effect, so a running timer is not changed when packets are sent
// or received (uct_ud_ep_timer of ud_ep.c); only a backed-off check is moved to an earlier time
// when the peer answers (soon). After one tick without an answer the peer is asked for an
// acknowledgement; after three ticks packets are assumed lost. The time between checks grows by the
// factor Backoff.

// Tick runs the timers that are due at the time of the last Clock. Dispatch posts the resulting
// packets.
func (it *Iface) Tick() {
	for len(it.timers) != 0 && it.timers[0].due <= it.now {
		e := it.timers[0]
		it.timers.remove(e)
		e.look()
	}
	it.expire()
}

// look checks an endpoint whose timer has expired.
func (e *Endpoint) look() {
	if e.Idle() {
		return
	}
	it := e.it
	// An endpoint that is still retransmitting waits for the queue, which is no sign of loss.
	if e.owed&(oweProbe|oweResend) == 0 && !it.port.Busy(e) {
		silence := it.now - max(e.sent, e.resent)
		if silence >= 3*it.tick && e.acked != e.psn-1 {
			e.lost()
		}
		if silence >= it.tick && e.is(connected) {
			e.owe(oweProbe)
		}
		if it.now-e.sent >= it.timeout {
			it.Counters.Dead++
			e.fail(ErrTimeout)
			return
		}
	}
	e.every = int64(min(float64(e.every)*it.cfg.Backoff, float64(it.maxTick)))
	e.due = it.now + e.every
	it.timers.push(e)
}
