//go:build linux

package tcp

import (
	"crypto/tls"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	machine "github.com/ucx-go/ucx/uct/internal/host"
)

var (
	_ uct.SourceLocator = (*conn)(nil)
	_ uct.SourcePauser  = (*conn)(nil)
)

// SourceInfo implements uct.SourceLocator.
func (c *conn) SourceInfo() uct.SourceInfo {
	info := uct.SourceInfo{Addr: c.from.addr, Local: c.here(), User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	info.TLS = c.SourceTLS()
	if s, err := c.otherEnd(); err == nil {
		info.User.Known, info.User.UID = true, s.UID
	}
	return info
}

// SourceTLS implements uct.SourceLocator.
func (c *conn) SourceTLS() *tls.ConnectionState {
	if c.tls == nil {
		return nil
	}
	return c.tls.state()
}

// HeldBy implements uct.SourceLocator: it reports whether a descriptor of process p is the socket at
// the other end. Only a process of the socket's user is searched, and the answer is cached, because
// the search takes time in proportion to the number of p's descriptors.
func (c *conn) HeldBy(p uct.Process) bool {
	s, err := c.otherEnd()
	if err != nil {
		return false
	}
	h := &c.from.holder
	if !h.asked || h.process != p {
		proc := machine.OfID(p)
		user, known := machine.FileUser(proc.PID)
		// If p is alive after the search, its PID was p's during the search.
		*h = holder{asked: true, process: p, holds: known && user == s.UID && sockdiag.HeldBy(proc.PID, s.Inode) && proc.Alive()}
	}
	return h.holds
}

// PauseSource implements uct.SourcePauser. The event set still reports that the connection breaks.
func (c *conn) PauseSource() {
	if c.paused || c.state == stateClosed {
		return
	}
	c.paused = true
	c.iface.svc.slow.remove(c)
	if c.readable() {
		if err := c.watch(c.watched&^event.Read | event.Hup); err != nil {
			c.lost("read", err)
		}
	}
}

// ResumeSource implements uct.SourcePauser.
func (c *conn) ResumeSource() {
	if !c.paused {
		return
	}
	c.paused = false
	if c.state >= stateStale || c.ended {
		return
	}
	if err := c.watch(c.watched&^event.Hup | event.Read); err != nil {
		c.lost("read", err)
		return
	}
	c.resumed = true
	c.iface.svc.markDirty(c)
}

// catchUp handles the input that arrived before the end of a pause, and returns the number of
// things done.
func (c *conn) catchUp() int {
	c.resumed = false
	if c.paused || c.state >= stateStale {
		return 0
	}
	n := 0
	if c.in != nil {
		n = c.parse()
	}
	if c.tls != nil {
		n += c.tls.drain()
		if c.paused || c.state >= stateStale {
			return n
		}
	}
	return n + c.read()
}
