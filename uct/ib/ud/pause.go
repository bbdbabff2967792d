//go:build linux

package ud

import "github.com/ucx-go/ucx/uct"

// A paused connection. The machine takes no more messages of it, so the peer keeps them;
// but for one now and then, lest the peer give us up. Those are copied, and wait.

var _ uct.SourcePauser = (*conn)(nil)

// putOff is a message that waits.
type putOff struct {
	id   uct.AMID
	data []byte
}

// PauseSource implements uct.SourcePauser.
func (c *conn) PauseSource() {
	c.paused = true
	c.iface.resumed.Remove(&c.turn)
	c.flow.Halt()
}

// ResumeSource implements uct.SourcePauser.
func (c *conn) ResumeSource() {
	if c.paused {
		c.paused = false
		if !c.turn.Listed() {
			c.iface.resumed.Add(&c.turn, c)
		}
	}
}

// deliverLate delivers what waits for connections that are not paused any more, and
// has their peers go on.
func (i *iface) deliverLate() (n int) {
	for left := i.resumed.Len(); left > 0 && i.resumed.Len() > 0; left-- {
		c := i.resumed.Next()
		i.resumed.Remove(&c.turn)
		for len(c.late) > 0 && !c.paused {
			m := c.late[0]
			c.late[0] = putOff{}
			c.late = c.late[1:]
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
