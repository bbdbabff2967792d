//go:build simulate

package simnet

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Endpoints of a program.

// link is the endpoint of a worker to a peer.
type link struct {
	ep      *ucp.Endpoint
	end     *endState
	closing []*op       // closes of endpoints before this one
	keys    []*ucp.Rkey // of endpoints before this one
	making  bool        // a goroutine makes the endpoint or the key
	stream  streamState
	key     *ucp.Rkey
}

// endState is what is known of the end of an endpoint.
type endState struct {
	failed bool // OnError was called
	closed bool // the program has begun to close it
}

// acceptedLink is the endpoint of a client.
type acceptedLink struct {
	ep  *ucp.Endpoint
	end *endState
}

// report is called by OnError. It returns false if it must not be. In thread mode multi another goroutine may
// fail the endpoint between the call of a close and what it does.
func (e *endState) report(wk *worker, err error) bool {
	switch {
	case e.failed:
		wk.l.j.fail("OnError of an endpoint of worker %d is called twice, at last with: %v", wk.number, err)
	case e.closed && !wk.proc.plan.Multi:
		wk.l.j.fail("OnError of an endpoint of worker %d is called after the endpoint was closed, with: %v", wk.number, err)
	}
	ok := !e.failed && !e.closed
	e.failed = true
	return ok
}

// demand checks that OnError was called for the error that an endpoint has, which is nil if there is none. After
// the orderly close of the peer, or of a connection by socket address, the call comes when the last messages of
// the peer have been received.
func (e *endState) demand(wk *worker, err error) {
	p := wk.l.p
	if err != nil && !e.failed && p.PeerMode && !p.Listen && !wk.proc.plan.Multi && !errors.Is(err, ucs.ErrPeerClosed) {
		wk.l.j.fail("an endpoint of worker %d has failed, and OnError was not called: %v", wk.number, err)
	}
}

// link returns the endpoint to a worker, and makes it if there is none. It returns nil if none can be
// made because of a fault.
func (g *goroutine) link(peer int) *link {
	wk := g.wk
	n := &wk.links[peer]
	for n.making {
		wk.proc.Until(func() bool { return !n.making })
	}
	if n.ep == nil || n.end.failed {
		n.making = true // before the close, in which other goroutines may run
		defer func() { n.making = false }()
	}
	if n.ep != nil && n.end.failed {
		g.closeLink(&Step{Kind: "close", Peer: peer})
	}
	if n.ep == nil {
		p := ucp.EndpointParams{Address: wk.l.workers[peer].addr}
		if l := wk.l.workers[peer].listener; l != nil && peer != wk.number {
			p = ucp.EndpointParams{RemoteAddr: l.Addr()}
		}
		if peer == wk.number && wk.proc.plan.NoLoop {
			p.Flags = ucp.EndpointNoLoopback
		}
		end := new(endState)
		if wk.l.p.PeerMode {
			p.ErrMode = ucp.ErrModePeer
			p.OnError = func(_ *ucp.Endpoint, err error, _ any) { wk.failed(peer, end, err) }
		}
		ep, err := wk.w.NewEndpoint(p)
		if err != nil && wk.isBroken(peer) {
			wk.l.tracef("worker %d: NewEndpoint to %d: %v", wk.number, peer, err)
			return nil
		}
		wk.l.must(err, "NewEndpoint")
		n.ep, n.end = ep, end
	}
	return n
}

// failed is called when an endpoint has failed.
func (wk *worker) failed(peer int, end *endState, err error) {
	if end.report(wk, err) && !wk.isBroken(peer) {
		wk.l.j.fail("an endpoint of worker %d to %d has failed: %v", wk.number, peer, err)
	}
}

// close closes an endpoint and its keys.
func (g *goroutine) close(peer int) {
	n := &g.wk.links[peer]
	for _, k := range n.keys {
		g.wk.l.must(k.Close(), "Rkey.Close")
	}
	n.keys = nil
	if n.key != nil {
		g.wk.l.must(n.key.Close(), "Rkey.Close")
		n.key = nil
	}
	g.closeLink(&Step{Kind: "close", Peer: peer})
}

// closeLink closes an endpoint. The next step that needs one makes another.
func (g *goroutine) closeLink(s *Step) {
	n := &g.wk.links[s.Peer]
	if n.ep == nil {
		return
	}
	n.end.demand(g.wk, n.ep.Err())
	o := &op{g: g, s: s, begin: g.wk.l.j.tick()}
	o.done = func(o *op, err error) {
		if errors.Is(err, ucs.ErrInvalidParam) {
			g.wk.l.j.fail("CloseAsync: %v", err)
		}
		g.wk.l.j.expect(o, err, "CloseAsync")
	}
	p := g.options(s, o)
	if o.callback {
		p.OnSend = onSend
	}
	if s.How == howForce && g.wk.l.p.PeerMode {
		p.CloseFlags = ucp.CloseForce // done in the call
		p.Flags = 0
		s.Flags &^= flagNoImm
		g.wk.l.disturb(g.wk.number, s.Peer)
	}
	ep := n.ep
	n.end.closed = true
	n.ep, n.closing = nil, append(n.closing, o)
	if n.key != nil {
		n.keys = append(n.keys, n.key)
		n.key = nil
	}
	if s.How == howShutdown {
		g.shutdown(s, ep, o)
		return
	}
	r, err := ep.CloseAsync(p)
	g.submit(o, r, err)
}

// Values of Step.How for closes.
const (
	howFlush    = iota
	howForce    // only with ErrModePeer
	howShutdown // Shutdown, whose context ends after Step.Wait
)

// shutdown closes an endpoint with a deadline, at which operations that the peer has not answered are
// canceled. The close then goes on in the background.
func (g *goroutine) shutdown(s *Step, ep *ucp.Endpoint, o *op) {
	g.wk.l.disturb(g.wk.number, s.Peer)
	ctx, cancel := platform.WithTimeout(context.Background(), max(s.Wait, 1))
	defer cancel()
	err := ep.Shutdown(ctx)
	g.wk.l.tracef("worker %d.%d: Shutdown: %v", g.wk.number, g.number, err)
	o.over = err == nil || !errors.Is(err, context.DeadlineExceeded)
}

// settled reports whether the effects of all one-sided operations before are known or ordered: the
// endpoints before this one are closed. They may end in any order.
func (n *link) settled() bool {
	n.closing = slices.DeleteFunc(n.closing, func(o *op) bool { return o.over })
	return len(n.closing) == 0
}

// listen makes the worker accept clients.
func (wk *worker) listen() {
	l := wk.l
	var err error
	wk.listener, err = wk.w.NewListener(ucp.ListenerParams{
		Addr: netip.AddrPortFrom(wk.proc.host.addr, uint16(1000+wk.number)),
		OnConnRequest: func(r *ucp.ConnRequest) {
			if wk.rejects > 0 {
				wk.rejects--
				l.must(r.Reject(), "ConnRequest.Reject")
				return
			}
			p := ucp.EndpointParams{ConnRequest: r}
			end := new(endState)
			if l.p.PeerMode {
				p.ErrMode = ucp.ErrModePeer
				p.OnError = func(_ *ucp.Endpoint, err error, _ any) { end.report(wk, err) } // of a client that has closed its endpoint, too
			}
			ep, err := wk.w.NewEndpoint(p)
			if err != nil && l.lossy {
				l.tracef("worker %d does not accept a client: %v", wk.number, err)
				return
			}
			l.must(err, "accepting a client")
			wk.accepted = append(wk.accepted, acceptedLink{ep, end})
		},
	})
	l.must(err, "NewListener")
}

// disturbAll records that what is under way to and from the worker may be lost.
func (wk *worker) disturbAll() {
	for k := range wk.l.workers {
		wk.l.disturb(wk.number, k)
	}
}

// reject makes the worker reject the next clients.
func (g *goroutine) reject(s *Step) {
	g.wk.disturbAll()
	g.wk.rejects += s.N
}

// shut closes the endpoints of clients, the oldest first.
func (g *goroutine) shut(s *Step) {
	wk := g.wk
	wk.disturbAll()
	for range s.N {
		if len(wk.accepted) == 0 { // another goroutine may close them, too
			return
		}
		n := wk.accepted[0]
		wk.accepted = wk.accepted[1:]
		n.end.closed = true
		o := &op{g: g, s: s, begin: wk.l.j.tick(), done: func(*op, error) {}}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		if s.How != 0 {
			p.CloseFlags = ucp.CloseForce
		}
		r, err := n.ep.CloseAsync(p)
		g.submit(o, r, err)
	}
}

// closeAccepted closes the endpoints of clients, which have closed theirs.
func (g *goroutine) closeAccepted() {
	wk := g.wk
	wk.l.must(wk.listener.Close(), "Listener.Close")
	for _, n := range wk.accepted {
		n.end.closed = true
		o := &op{g: g, s: &drainStep, begin: wk.l.j.tick(), done: func(*op, error) {}}
		r, err := n.ep.CloseAsync(nil)
		g.submit(o, r, err)
	}
	wk.accepted = nil
	g.finish("closes of accepted endpoints")
}
