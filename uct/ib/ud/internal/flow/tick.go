//go:build linux

package flow

// Each endpoint with packets in flight looks, after a while, whether the peer has
// answered. One look too early costs nothing, so a timer that runs is left alone when
// packets go or come, and found out to be early when it ends (uct_ud_ep_timer of
// ud_ep.c). After one tick without an answer the peer is asked, after three it is
// believed that packets are lost. The time between looks grows meanwhile.

// Tick does what is due, by the last Clock. What comes of it is posted by Dispatch.
func (it *Iface) Tick() {
	for len(it.timers) != 0 && it.timers[0].due <= it.now {
		e := it.timers[0]
		it.timers.remove(e)
		e.look()
	}
	it.expire()
}

// look is the end of an endpoint's timer.
func (e *Endpoint) look() {
	if e.Idle() {
		return
	}
	it := e.it
	// Who is still repeating is slow, which is no sign of loss.
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
