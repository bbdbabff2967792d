//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// A paused connection. Endpoints share the queue that is received into, so what comes for
// one that is not read has to be taken out of it: it is copied, and waits. The grants that
// it asks for are given when it is delivered. Until then a peer that keeps the rules sends no
// more than its window; one that does not loses the connection. There may be many peers, so
// beyond what an interface may put off the one with most waiting loses his.

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
	if len(b.list) > 0 && !b.turn.Listed() && !e.discards {
		e.iface.resumed.Add(&b.turn, e)
	}
}

// weight is what a message takes, about.
func weight(m []byte) int { return len(m) + 48 }

// weigh notes that so many bytes more wait.
func (e *endpoint) weigh(n int) {
	e.backlog.bytes += n
	e.iface.putOff += n
}

// push puts a copy of a message off, without a grant in it.
func (e *endpoint) push(data []byte) {
	m := append([]byte(nil), data...)
	m[0] &^= fcGrant
	e.backlog.list = append(e.backlog.list, m)
	e.weigh(weight(m))
}

// nextMail takes the first one.
func (e *endpoint) nextMail() (m []byte) {
	b := &e.backlog
	m, b.list[0] = b.list[0], nil
	b.list = b.list[1:]
	if len(b.list) == 0 {
		b.list = nil
	}
	e.weigh(-weight(m))
	return m
}

// maxPutOff bounds what waits on all connections of an interface together, in bytes: what
// 60 peers send that keep to the window of C UCX and fill it with their largest messages.
const maxPutOff = 256 << 20

// roomFor makes room for n bytes more that are to wait, and says whether there is. Whoever
// would have most gives way.
func (e *endpoint) roomFor(n int) bool {
	i := e.iface
	for i.putOff+n > i.mostPutOff {
		hog, most := e, e.backlog.bytes+n
		for _, o := range i.eps {
			if o != nil && o.backlog.bytes > most {
				hog, most = o, o.backlog.bytes
			}
		}
		if hog.drop(errCrowded); hog == e {
			return false
		}
	}
	return true
}

// readUp delivers what waits, paused or not: it is not much. It returns how much that was.
func (e *endpoint) readUp() (n int) {
	for ; len(e.backlog.list) > 0; n++ {
		e.message(e.nextMail(), nil)
	}
	e.iface.resumed.Remove(&e.backlog.turn) // who has nothing to deliver has no turn
	return n
}

// forget drops what waits.
func (e *endpoint) forget() {
	e.iface.resumed.Remove(&e.backlog.turn)
	e.weigh(-e.backlog.bytes)
	e.backlog = backlog{}
}
