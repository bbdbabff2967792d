//go:build linux

package flow

// Each endpoint with packets in flight looks, after a while, whether the peer has
// answered. One look too early costs nothing, so a timer that runs is left alone when
// packets go or come, and found out to be early when it ends (uct_ud_ep_timer of
// ud_ep.c). After one tick without an answer the peer is asked, after three it is
// believed that packets are lost. The time between looks grows meanwhile.
//
// The clock of all this stands still while nobody calls, lest a program that computes
// for a minute finds all its peers dead when it looks again: what is late beyond a
// tick is skipped.

// Clock tells the time, in nanoseconds since whenever; it never goes back. Whatever is
// called until the next Clock happens now.
func (it *Iface) Clock(now int64) {
	t := now - it.skipped
	for len(it.timers) != 0 && it.timers[0].due <= t && it.timers[0].Idle() {
		it.timers.remove(it.timers[0])
	}
	if len(it.timers) != 0 {
		if late := t - it.timers[0].due - it.tick; late > 0 {
			it.skipped += late
			t -= late
		}
	}
	if t > it.now {
		it.now = t
	}
	for it.fresh != nil {
		e := it.fresh
		it.fresh, e.nextFresh, e.fresh = e.nextFresh, nil, false
		if !e.Idle() && e.slot == none {
			// Sent since the last round: the wait begins when it is noticed.
			e.sent = it.now
			e.due = it.now + e.every
			it.timers.push(e)
		}
	}
}

// Next is when Tick wants to be called, on the clock of Clock. It wants that only
// while packets are in flight.
func (it *Iface) Next(now int64) (due int64, wanted bool) {
	it.Clock(now)
	for len(it.timers) != 0 && it.timers[0].Idle() {
		it.timers.remove(it.timers[0])
	}
	if len(it.timers) == 0 {
		return 0, false
	}
	return it.timers[0].due + it.skipped, true
}

// Tick does what is due, by the last Clock. What comes of it is posted by Dispatch.
func (it *Iface) Tick() {
	for len(it.timers) != 0 && it.timers[0].due <= it.now {
		e := it.timers[0]
		it.timers.remove(e)
		e.look()
	}
	it.expire()
}

// start makes the timer run from the next Clock on.
func (e *Endpoint) start() {
	if !e.fresh {
		it := e.it
		e.fresh = true
		e.nextFresh, it.fresh = it.fresh, e
	}
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
	e.every = min(int64(float64(e.every)*it.cfg.Backoff), it.maxTick)
	e.due = it.now + e.every
	it.timers.push(e)
}

// heap is endpoints by when they look, the earliest first.
type heap []*Endpoint

func (h *heap) push(e *Endpoint) {
	*h = append(*h, e)
	h.up(len(*h)-1, e)
}

func (h *heap) remove(e *Endpoint) {
	i, n := int(e.slot), len(*h)-1
	last := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	e.slot = none
	if i == n {
		return
	}
	h.down(i, last)
	if int(last.slot) == i {
		h.up(i, last)
	}
}

func (h heap) up(i int, e *Endpoint) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].due <= e.due {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, e)
}

func (h heap) down(i int, e *Endpoint) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].due < h[child].due {
			child++
		}
		if e.due <= h[child].due {
			break
		}
		h.set(i, h[child])
		i = child
	}
	h.set(i, e)
}

func (h heap) set(i int, e *Endpoint) {
	h[i] = e
	e.slot = int32(i)
}
