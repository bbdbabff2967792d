//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
)

// A paused connection. The machine takes no more messages of it, so the peer keeps them;
// but for one now and then, lest the peer give us up. Those are copied, and wait.

var _ uct.SourcePauser = (*conn)(nil)

// late is a message that waits.
type late struct {
	id   uct.AMID
	data []byte
}

// maxLateBytes bounds what waits on all connections of an interface together. Beyond it
// those that are paused take nothing, and in the background none does.
const maxLateBytes = 16 << 20

// weigh notes that so many bytes more wait.
func (i *iface) weigh(n int) {
	i.lateBytes += n
	switch {
	case i.lateBytes < i.mostLate:
		i.flow.Taking = flow.TakeAll
	case i.offline:
		i.flow.Taking = flow.TakeNone
	default:
		i.flow.Taking = flow.TakeRunning
	}
}

// weight is what a message that waits takes, about.
func (m *late) weight() int { return len(m.data) + 64 }

// maxLateOffline is how many messages of a connection are taken and put off in the
// background; the peer keeps the others.
const maxLateOffline = 64

// PauseSource implements uct.SourcePauser.
func (c *conn) PauseSource() {
	c.iface.enter()
	defer c.iface.leave()
	c.paused = true
	c.iface.resumed.Remove(&c.turn)
	c.flow.Halt()
}

// ResumeSource implements uct.SourcePauser.
func (c *conn) ResumeSource() {
	c.iface.enter()
	defer c.iface.leave()
	if c.paused {
		c.paused = false
		c.putOff()
	}
}

// popLate takes the first message that waits.
func (c *conn) popLate() late {
	m := c.late[0]
	c.late[0] = late{}
	c.late = c.late[1:]
	c.iface.weigh(-m.weight())
	return m
}

// readUp delivers what waits on a connection that has ended, paused or not: its peer has
// been told that it arrived.
func (c *conn) readUp() {
	for len(c.late) > 0 && !c.dropped && !c.iface.closed {
		m := c.popLate()
		c.hand(m.id, m.data, nil)
	}
}

// deliverLate delivers what waits for connections that are not paused any more, and
// has their peers go on.
func (i *iface) deliverLate() (n int) {
	for left := i.resumed.Len(); left > 0 && i.resumed.Len() > 0; left-- {
		c := i.resumed.Next()
		i.resumed.Remove(&c.turn)
		for len(c.late) > 0 && !c.paused {
			m := c.popLate()
			n++
			c.hand(m.id, m.data, nil)
			if i.closed {
				return n
			}
		}
		if c.paused {
			continue
		}
		c.late = nil
		c.flow.Resume()
		if c.ended || c.over {
			c.finish()
		}
	}
	return n
}
