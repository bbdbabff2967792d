//go:build linux

package tcp

import "time"

// aliveList holds the connections that had output under way at the last look, see
// [liveness].
type aliveList struct {
	list []*conn
}

// aliveMark is a connection's part in it.
type aliveMark struct {
	place int           // in the list, from 1 on; 0: it is not there
	since time.Duration // no sign of life is known since then, by the clock of the worker
}

// forget takes c off the list: it is quiet, or closed, and what it leads to is not to stay
// in memory until the next look.
func (l *aliveList) forget(c *conn) {
	place := c.alive.place
	if place == 0 {
		return
	}
	last := len(l.list) - 1
	l.list[place-1] = l.list[last]
	l.list[place-1].alive.place = place
	l.list[last] = nil
	l.list = l.list[:last]
	c.alive = aliveMark{}
}
