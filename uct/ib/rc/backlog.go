//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// A paused connection. Endpoints share the queue that is received into, so what comes for
// one that is not read has to be taken out of it: it is copied, and waits. The grants that
// it asks for are given when it is delivered. Until then a peer that keeps the rules sends no
// more than its window; one that does not loses the connection.

var _ uct.SourcePauser = (*endpoint)(nil)

// backlog is what has come for a paused endpoint, and waits.
type backlog struct {
	paused bool
	list   [][]byte
	bytes  int
	turn   kit.Node[*endpoint] // in iface.resumed
}

// waits reports whether a message has to wait.
func (b *backlog) waits() bool { return b.paused || len(b.list) > 0 }

// PauseSource implements uct.SourcePauser. Of an endpoint that has ended everything is
// delivered all the same: nobody would resume it.
func (e *endpoint) PauseSource() {
	if e.qp == nil {
		return
	}
	e.backlog.paused = true
	e.iface.resumed.Remove(&e.backlog.turn)
}

// ResumeSource implements uct.SourcePauser.
func (e *endpoint) ResumeSource() {
	b := &e.backlog
	b.paused = false
	if len(b.list) > 0 && !b.turn.Listed() && !e.deaf {
		e.iface.resumed.Add(&b.turn, e)
	}
}

// weight is what a message takes, about.
func weight(m []byte) int { return len(m) + 48 }

// push puts a copy of a message off, without a grant in it.
func (b *backlog) push(data []byte) {
	m := append([]byte(nil), data...)
	m[0] &^= fcGrant
	b.list = append(b.list, m)
	b.bytes += weight(m)
}

// pop takes the first one.
func (b *backlog) pop() (m []byte) {
	m, b.list[0] = b.list[0], nil
	b.list = b.list[1:]
	b.bytes -= weight(m)
	if len(b.list) == 0 {
		b.list = nil
	}
	return m
}

// readUp delivers what waits, paused or not: it is not much. It returns how much that was.
func (e *endpoint) readUp() (n int) {
	for ; len(e.backlog.list) > 0; n++ {
		e.message(e.backlog.pop(), nil)
	}
	e.iface.resumed.Remove(&e.backlog.turn) // who has nothing to deliver has no turn
	return n
}

// forget drops what waits.
func (e *endpoint) forget() {
	e.iface.resumed.Remove(&e.backlog.turn)
	e.backlog = backlog{}
}
