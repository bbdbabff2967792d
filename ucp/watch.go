package ucp

// In thread mode multi calls that wait for a request are told of its end by whoever
// brings it about.

// watch has the end of the request told to a call.
func (r *Request) watch(c *call) {
	r.state |= stateWatched
	if !c.given {
		r.state |= stateFreed // by the end of it
	}
	c.next, r.waiters = r.waiters, c
}

func (r *Request) unwatch(c *call) {
	at := &r.waiters
	for *at != c {
		at = &(*at).next
	}
	*at = c.next
	if r.waiters == nil {
		r.state &^= stateWatched
	}
}

// tell tells those who wait for a request.
func (w *Worker) tell(waiters *call, err error, info TagRecvInfo) {
	for c := waiters; c != nil; {
		next := c.next
		c.info, c.r, c.next = info, nil, nil
		w.engine.End(&c.Waiter, err)
		c = next
	}
}
