//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
)

// Paused connections. The state machine takes no more messages of a paused connection, so the peer
// keeps them, except for one now and then, so that the peer does not declare this side dead. The
// messages that are taken are copied, and wait for delivery as late messages.

// late is a received message that waits for delivery.
type late struct {
	id   uct.AMID
	data []byte
}

// maxLateBytes bounds the late messages of all connections of an interface together. At this bound
// paused connections take no messages, and in the background no connection does.
const maxLateBytes = 16 << 20

// addLateBytes adds n to the bytes of late messages, and sets which connections take messages.
func (i *iface) addLateBytes(n int) {
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

// weight returns the approximate memory of a late message in bytes.
func (m *late) weight() int { return len(m.data) + 64 }

// maxLateOffline is the number of late messages of a connection at which the background stops taking
// more; the peer keeps the others.
const maxLateOffline = 64

// PauseSource implements uct.Connection.
func (c *conn) PauseSource() {
	c.iface.enter()
	defer c.iface.leave()
	c.paused = true
	c.iface.resumed.Remove(&c.resumedNode)
	c.flow.Halt()
}

// ResumeSource implements uct.Connection.
func (c *conn) ResumeSource() {
	c.iface.enter()
	defer c.iface.leave()
	if c.paused {
		c.paused = false
		c.putOff()
	}
}

// popLate removes and returns the first late message.
func (c *conn) popLate() late {
	m := c.late[0]
	c.late[0] = late{}
	c.late = c.late[1:]
	c.iface.addLateBytes(-m.weight())
	return m
}

// deliverAllLate delivers the late messages of a connection that has ended, paused or not, because they
// have been acknowledged to the peer.
func (c *conn) deliverAllLate() {
	for len(c.late) > 0 && !c.dropped && !c.iface.closed {
		m := c.popLate()
		c.hand(m.id, m.data, nil)
	}
}

// deliverLate delivers the late messages of connections that are not paused, and makes their peers
// send again. It returns the number of messages.
func (i *iface) deliverLate() (n int) {
	for left := i.resumed.Len(); left > 0 && i.resumed.Len() > 0; left-- {
		c := i.resumed.Next()
		i.resumed.Remove(&c.resumedNode)
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
