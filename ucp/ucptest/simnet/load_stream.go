//go:build simulate

package simnet

import (
	"context"
	"errors"
	"slices"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Streams. The bytes of a stream are a pattern from a place on that depends on its two workers. The
// first goroutine of each worker sends and receives them.

// streamState is what a worker has of the two streams of an endpoint.
type streamState struct {
	sent     int
	received int
	recvs    []*op // in flight, in order
	reads    int
}

// streamAt returns the place in the pattern of a byte of the stream from one worker to another.
func streamAt(from, to *worker, k int) uint64 {
	return uint64(from.number)*10007 + uint64(to.number)*1009 + uint64(k)
}

// streamSend sends bytes.
func (g *goroutine) streamSend(s *Step) {
	l := g.wk.l
	if s.Peer == g.wk.number && g.wk.proc.plan.NoLoop { // the stream is that of the endpoint's counterpart, which no application has
		return
	}
	for range s.N {
		n := g.link(s.Peer)
		if n == nil {
			return
		}
		at := streamAt(g.wk, l.workers[s.Peer], n.stream.sent)
		o := &op{g: g, s: s, buf: g.buffer(s.Size), begin: l.j.tick()}
		fillStream(o.buf, at)
		n.stream.sent += s.Size
		l.j.add(s.Size)
		unsent := func() {
			n.stream.sent -= s.Size
			l.j.add(-s.Size)
		}
		o.done = func(o *op, err error) {
			if k := mismatchStream(o.buf, at); k >= 0 {
				l.j.fail("the buffer of %s was changed at byte %d", o.s, k)
			}
			if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
				unsent()
				return
			}
			l.j.expect(o, err, "a stream send")
		}
		if s.blocks() {
			ctx, cancel := g.deadline(s)
			err := n.ep.StreamSendWait(ctx, o.buf)
			cancel()
			o.over = true
			switch {
			case errors.Is(err, ucs.ErrCanceled):
				unsent()
			case errors.Is(err, context.DeadlineExceeded) && errors.Is(err, ucs.InProgress):
				g.wk.heldStreams = append(g.wk.heldStreams, o)
				continue
			case errors.Is(err, context.DeadlineExceeded):
			default:
				l.j.expect(o, err, "StreamSendWait")
			}
			fillCanary(o.buf)
			continue
		}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		buf := g.content(s, o, p)
		r, err := n.ep.StreamSend(buf, p)
		g.submit(o, r, err)
	}
}

// streamRecv receives bytes.
func (g *goroutine) streamRecv(s *Step) {
	l := g.wk.l
	for range s.N {
		n := g.link(s.Peer)
		if n == nil {
			return
		}
		o := &op{g: g, s: s, buf: g.buffer(s.Size), begin: l.j.tick()}
		if s.blocks() && len(n.stream.recvs) == 0 {
			ctx, cancel := g.deadline(s)
			var k int
			var err error
			if s.Flags&flagAll != 0 {
				k, err = n.ep.StreamRecvFullWait(ctx, o.buf)
			} else {
				k, err = n.ep.StreamRecvWait(ctx, o.buf)
			}
			cancel()
			if err != nil && !errors.Is(err, ucs.ErrCanceled) {
				l.j.expect(o, err, "StreamRecvWait")
			}
			if err == nil && (k == 0 && s.Size > 0 || s.Flags&flagAll != 0 && k != s.Size) {
				l.j.fail("%s has received %d bytes", s, k)
			}
			g.streamed(s.Peer, o.buf, k)
			o.over = true
			fillCanary(o.buf)
			continue
		}
		var params ucp.RequestParams
		p := &params
		*p = *g.options(s, o)
		p.Request = nil
		o.callback = true
		p.OnStreamRecv = func(r *ucp.Request, err error, k int, _ any) {
			o.n = k
			o.called(r, err)
		}
		if s.Flags&flagAll != 0 {
			p.StreamFlags = ucp.StreamRecvWaitAll
		}
		o.done = func(o *op, err error) {
			if err != nil && o.r == nil && s.Flags&flagForce != 0 && errors.Is(err, ucs.ErrNoResource) {
				return
			}
			if o.calls > 0 {
				k := slices.Index(n.stream.recvs, o)
				if k < 0 || k > 0 && o.n > 0 {
					l.j.fail("%s was filled out of order", s)
					return
				}
				n.stream.recvs = slices.Delete(n.stream.recvs, k, k+1)
			}
			if err != nil {
				l.j.expect(o, err, "a stream receive")
			}
			if err == nil && (o.n == 0 && s.Size > 0 || s.Flags&flagAll != 0 && o.n != s.Size) {
				l.j.fail("%s has received %d bytes", s, o.n)
			}
			g.streamed(s.Peer, o.buf, o.n)
		}
		buf := g.content(s, o, p)
		n.stream.recvs = append(n.stream.recvs, o)
		k, r, err := n.ep.StreamRecv(buf, p)
		if r == nil {
			last := len(n.stream.recvs) - 1
			if n.stream.recvs[last] != o || err == nil && last > 0 && s.Size > 0 {
				l.j.fail("%s was done in the call, before those that were started before", s)
			}
			n.stream.recvs = n.stream.recvs[:last]
			o.n = k
		}
		g.submitRecv(o, r, err)
	}
}

// streamed checks bytes that have come.
func (g *goroutine) streamed(peer int, b []byte, n int) {
	l := g.wk.l
	s := &g.wk.links[peer].stream
	if k := mismatchStream(b[:n], streamAt(l.workers[peer], g.wk, s.received)); k >= 0 {
		l.j.fail("byte %d of the stream from worker %d to %d is wrong", s.received+k, peer, g.wk.number)
	}
	if k := notCanary(b[n:]); k >= 0 {
		l.j.fail("a stream receive of %d bytes has written behind them", n)
	}
	s.received += n
	l.j.add(-n)
	if sent := l.workers[peer].links[g.wk.number].stream.sent; s.received > sent {
		l.j.fail("worker %d received %d bytes of %d of the stream of %d", g.wk.number, s.received, sent, peer)
	}
}

// readStream reads what has come of the stream of a peer.
func (g *goroutine) readStream(peer int) (n int) {
	l := g.wk.l
	link := &g.wk.links[peer]
	sent := l.workers[peer].links[g.wk.number].stream.sent
	if sent == 0 || link.stream.received >= sent {
		return 0
	}
	if g.link(peer) == nil {
		return 0
	}
	if len(link.stream.recvs) > 0 {
		// A receive for all of a buffer may never be filled.
		all := func(o *op) bool { return o.s.Flags&flagAll != 0 && o.stopped == 0 }
		if g.wk.running == 0 && slices.ContainsFunc(link.stream.recvs, all) {
			for _, o := range link.stream.recvs {
				o.stopped = l.j.tick()
			}
			for len(link.stream.recvs) > 0 {
				before := len(link.stream.recvs)
				g.wk.w.Cancel(link.stream.recvs[0].r)
				if len(link.stream.recvs) == before {
					break
				}
			}
		}
		return 0
	}
	for l.j.err == nil {
		link.stream.reads++
		if link.stream.reads%2 == 0 {
			d, err := link.ep.StreamRecvData()
			if err != nil {
				l.j.fail("StreamRecvData: %v", err)
			}
			b := d.Bytes()
			if len(b) == 0 {
				return n
			}
			g.streamed(peer, b, len(b))
			d.Release()
			n++
			continue
		}
		step := g.step
		g.streamRecv(&Step{Kind: "srecv", N: 1, Peer: peer, Size: 4096})
		g.step = step
		if len(link.stream.recvs) > 0 {
			return n
		}
		n++
	}
	return n
}

// giveStreams takes back the buffers of stream sends whose wait has ended.
func (wk *worker) giveStreams() {
	for _, o := range wk.heldStreams {
		fillCanary(o.buf)
	}
}

// connect makes an endpoint.
func (g *goroutine) connect(s *Step) {
	if n := g.link(s.Peer); n != nil && s.Wait > 0 {
		ctx, cancel := g.deadline(s)
		defer cancel()
		if err := n.ep.ConnectWait(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && g.wk.l.faultless() {
			g.wk.l.j.fail("ConnectWait: %v", err)
		}
	}
}
