//go:build linux

package tcp

import "time"

// aliveList holds the connections that have sent something since they were last found idle, see
// [liveness].
type aliveList struct {
	list []*conn
}

// aliveMark is a connection's entry in the list.
type aliveMark struct {
	place int           // position in the list, from 1 on; 0: not listed
	since time.Duration // start of the peer's silence, by the worker's clock; negative: not checked yet
}

// forget removes c from the list, because it is idle or closed. A closed connection must not stay
// referenced, and thus in memory, until the next check.
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
