package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
)

// What endpoints do to the ifaces they lead to: they put messages into the inbox,
// take them back, and wake the owner; and how their connections break. The caller
// holds the network's lock, but for dispatch.

// dispatch puts p into the peer's inbox.
func (e *endpoint) dispatch(p *packet) {
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	if err := e.unheard(); err != nil {
		e.lose(err)
	}
	if e.lost != nil { // and nobody has noticed yet
		e.home.net.recycleLocked(p)
		return
	}
	if p.op != nil {
		p.op.packet = p
	}
	e.sent++
	p.due = e.peer.round + 1 + uint64(e.peer.o.Latency)
	e.peer.inbox = append(e.peer.inbox, p)
	if !e.peer.deaf {
		e.peer.wake()
	}
}

// unheard says why the endpoint that e is connected with receives nothing, nil if it does:
// it is not connected itself, and a device gives up sending to it, or is closed. The
// caller holds net.mu.
func (e *endpoint) unheard() error {
	if e.other == 0 {
		return nil
	}
	other := e.home.net.ends[e.other]
	switch {
	case other == nil:
		return errOtherClosed
	case other.peer == nil:
		return errNotConnected
	}
	return nil
}

var (
	errOtherClosed  = statuserr.Errorf(ucs.ErrConnectionReset, "sim: the other end is closed")
	errNotConnected = fmt.Errorf("sim: the other end is not connected: %w", ucs.ErrEndpointTimeout)
)

// sayLast lets the peer know, behind the last message, that no more will come.
// The caller holds net.mu.
func (e *endpoint) sayLast() {
	i := e.peer
	if i.closed {
		return
	}
	p := &packet{from: e, last: true, due: i.round + 1 + uint64(i.o.Latency)}
	if n := len(i.inbox); n > 0 {
		p.due = max(p.due, i.inbox[n-1].due)
	}
	i.inbox = append(i.inbox, p)
	i.wake()
}

// recall takes back messages that are on their way, all or only those that are
// still in the sender's memory. The caller holds net.mu.
func (e *endpoint) recall(zcopyOnly bool) {
	if e.peer == nil {
		return
	}
	for _, p := range e.peer.inbox {
		if p.from != e || p.canceled || zcopyOnly && p.op == nil {
			continue
		}
		p.canceled = true
		p.forget()
		e.arrived++
		if p.op != nil {
			p.op.packet = nil
			p.op = nil
		}
	}
}

// lose breaks the connection of e: what is on its way is lost, and the next
// progress reports the failure. The caller holds net.mu.
func (e *endpoint) lose(err error) {
	if e.lost == nil {
		e.lost = err
	}
	e.recall(false)
	e.home.wake()
}

// drop breaks all connections between the two ifaces, either way. The caller
// holds net.mu.
func (e *endpoint) drop(err error) {
	for other := range e.peer.incoming {
		if other.home == e.home {
			other.lose(err)
		}
	}
	for other := range e.home.incoming {
		if other.home == e.peer {
			other.lose(err)
		}
	}
}

// wake rings the bell if somebody may be waiting for it. The caller holds net.mu.
func (i *iface) wake() {
	if !i.armed || i.bell == nil {
		return
	}
	i.armed = false
	i.bell.Ring()
}
