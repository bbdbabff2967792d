//go:build simulate

package simnet

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Operations of a program.

// op is an operation.
type op struct {
	g     *goroutine
	s     *Step
	m     *message
	r     *ucp.Request
	mem   *ucp.Memory // of the buffer
	buf   []byte
	head  []byte
	calls int                    // number of times that the callback has run
	done  func(o *op, err error) // judges the result

	callback, over, freed bool
	mayCancel             bool // a receive, which Request.Wait may cancel
	waited                bool // Request.Wait or Worker.Close has canceled it
	uncounted             bool // a receive in flight, whose end the world does not wait for
	err                   error

	// Of a tag receive.
	tag, mask ucp.Tag
	info      ucp.TagRecvInfo
	truncated bool
	canceled  bool     // it may have had a message before
	idle      bool     // it was canceled without a whole message
	lost      bool     // it has ended with an error after a message had matched
	taken     *message // that TagTake has given: the receive was not posted

	at time.Duration // time of the end

	n                             int    // bytes received
	begin, posted, stopped, ended uint64 // numbers of the order of calls
}

// isDone reports whether the operation has ended, without judging it.
func (o *op) isDone() bool {
	if o.callback || o.over {
		return o.over
	}
	return o.r.Done()
}

// submit records what a call has returned that starts an operation.
func (g *goroutine) submit(o *op, r *ucp.Request, err error) {
	j := g.wk.l.j
	o.posted = j.tick()
	j.ops++
	g.step = append(g.step, o)
	if o.mem != nil && r != nil && !r.Done() && o.mem.Close() == nil {
		j.fail("the memory of %s, which is in flight, was unmapped", o.s)
	}
	if r != nil {
		o.r = r
		if o.over { // the callback has run
			return
		}
	}
	switch {
	case r != nil && err != nil:
		j.fail("%s returned a request and an error", o.s)
	case err != nil:
		if o.calls != 0 {
			j.fail("%s failed, and its callback has run", o.s)
		}
		o.callback = false
		o.end(err)
	case r == nil:
		if o.s.Flags&flagNoImm != 0 && o.r == nil {
			j.fail("%s with OpNoImmediate returned no request", o.s)
		}
		if o.calls != 0 && o.callback {
			j.fail("%s was done in the call, and its callback has run", o.s)
		}
		o.callback = false
		o.end(nil)
	default:
		if o.s.Flags&flagForce != 0 {
			j.fail("%s with OpForceImmediate returned a request", o.s)
		}
		j.add(1)
		g.wk.ops = append(g.wk.ops, o)
	}
}

// end judges an operation that has ended.
func (o *op) end(err error) {
	j := o.g.wk.l.j
	if o.over {
		j.fail("%s ended twice: %v, %v", o.s, o.err, err)
		return
	}
	inFlight := o.r != nil && o.posted != 0
	o.over, o.err, o.at = true, err, j.l.w.now
	o.ended = j.tick()
	if o.g.wk.l.out != nil {
		o.g.wk.l.tracef("worker %d.%d: end of %s: %v", o.g.wk.number, o.g.number, o.s, err)
	}
	o.done(o, err)
	fillCanary(o.buf)
	fillCanary(o.head)
	o.unmap()
	if inFlight {
		if !o.uncounted {
			j.add(-1)
		}
		if !o.callback && !o.g.waits {
			o.free()
		}
	}
}

// free frees the request of an operation that has ended, if the step says so.
func (o *op) free() {
	if o.s.Flags&flagFree != 0 && o.r != nil && !o.freed {
		o.freed = true
		o.r.Free()
	}
}

// called is called by callbacks.
func (o *op) called(r *ucp.Request, err error) {
	j := o.g.wk.l.j
	if o.calls++; o.calls > 1 {
		j.fail("the callback of %s ran %d times", o.s, o.calls)
		return
	}
	if o.over {
		j.fail("the callback of %s ran after its end", o.s)
		return
	}
	if r == nil || o.r != nil && o.r != r {
		j.fail("the callback of %s got another request", o.s)
		return
	}
	if !r.Done() || !errors.Is(r.Err(), err) && r.Err() != err {
		j.fail("in the callback of %s Err is %v, not %v", o.s, r.Err(), err)
	}
	if o.s.Flags&flagChain == 0 {
		o.end(err)
		return
	}
	j.add(1)
	o.end(err)
	o.g.chain(o.m, o.s.Peer)
	j.add(-1)
}

// chain sends the message that the callback of another one sends, or its handler. It has the last of the
// numbers of its operation.
func (g *goroutine) chain(m *message, peer int) {
	wk := g.wk
	j := wk.l.j
	n := &wk.links[peer]
	if wk.leaving || n.making || n.ep != nil && n.end.failed || j.err != nil {
		return
	}
	if n = g.link(peer); n == nil {
		return
	}
	s := &Step{Kind: "tag", ID: m.id + (m.s.messages()-1)*m.s.N, N: 1, Peer: peer, Size: m.s.Size, Class: m.s.Class % amReplies, Flags: flagCallback}
	o := &op{g: g, s: s, buf: g.buffer(s.Size), done: sentResult, begin: j.tick(), callback: true}
	fill(o.buf, s.ID)
	o.m = j.sends(s.ID, s, peer, s.Size, tagOf(s.ID, s.Class), o)
	step := g.step
	r, err := n.ep.TagSend(o.m.tag, o.buf, &ucp.RequestParams{OnSend: onSend, UserData: o})
	g.submit(o, r, err)
	g.step = step
}

func onSend(r *ucp.Request, err error, u any) { u.(*op).called(r, err) }

// cancel cancels an operation.
func (o *op) cancel() {
	o.stopped = o.g.wk.l.j.tick()
	o.g.wk.l.tracef("worker %d.%d: cancel of %s", o.g.wk.number, o.g.number, o.s)
	o.g.wk.w.Cancel(o.r)
}

// lateness is how much later than its deadline a call that waits may return.
const lateness = 10 * time.Millisecond

// deadline returns the context of a call that waits, and the function that ends it, which checks that the call
// has returned in time. Calls that write to the program's memory may wait until nobody writes to it any more.
func (g *goroutine) deadline(s *Step) (context.Context, context.CancelFunc) {
	l := g.wk.l
	ctx, cancel := platform.WithTimeout(context.Background(), s.Wait)
	end := l.w.now + s.Wait
	return ctx, func() {
		cancel()
		if late := l.w.now - end; late > lateness && !kinds[s.Kind].writes && !g.wk.proc.freezes() {
			l.j.fail("worker %d: %s has returned %v after its deadline", g.wk.number, s, late)
		}
	}
}

// inTime checks that a wait for an operation, which has just returned, has not gone on after its end. Only of an
// operation with a callback it is known when that was.
func (o *op) inTime() {
	l := o.g.wk.l
	if late := l.w.now - o.at; o.callback && o.over && late > lateness && !o.g.wk.proc.freezes() {
		l.j.fail("Request.Wait of worker %d has returned %v after the end of %s", o.g.wk.number, late, o.s)
	}
}

// freezes reports whether the program stops the process for a while.
func (pr *process) freezes() bool {
	return slices.ContainsFunc(pr.l.p.Faults, func(f Fault) bool { return f.Kind == "freeze" && f.A == pr.number })
}

// options returns the parameters of an operation.
func (g *goroutine) options(s *Step, o *op) *ucp.RequestParams {
	g.params = ucp.RequestParams{UserData: o}
	p := &g.params
	for _, f := range [...]struct {
		flag Flags
		op   ucp.OpFlags
	}{{flagNoImm, ucp.OpNoImmediate}, {flagForce, ucp.OpForceImmediate}, {flagFast, ucp.OpFastComplete}, {flagMulti, ucp.OpMultiSend}} {
		if s.Flags&f.flag != 0 {
			p.Flags |= f.op
		}
	}
	o.callback = s.Flags&flagCallback != 0
	if s.Flags&flagOwn != 0 {
		p.Request = new(ucp.Request)
	}
	return p
}

// plain returns p, or nil if that says the same.
func plain(s *Step, p *ucp.RequestParams) *ucp.RequestParams {
	if s.Flags == 0 && p.AMFlags == 0 && s.ID%2 == 0 {
		return nil
	}
	return p
}

// mapped puts the buffer of a send, put or get into memory that is mapped until the operation has ended. Where a
// fault refuses that the buffer stays where it is.
func (g *goroutine) mapped(o *op, p *ucp.RequestParams) {
	if o.s.Flags&flagMemory == 0 || len(o.buf) == 0 {
		return
	}
	l, c := g.wk.l, g.wk.proc.ctx
	var err error
	if o.s.ID%2 == 0 || l.lossy { // a killed process does not free what it has allocated
		o.mem, err = c.Register(o.buf, 0)
	} else if o.mem, err = c.Alloc(len(o.buf), 0); err == nil {
		b := o.mem.Bytes()[:len(o.buf)]
		copy(b, o.buf)
		fillCanary(o.buf)
		o.buf = b
	}
	if err != nil && l.lossy {
		o.mem = nil
		return
	}
	l.must(err, "mapping the memory of an operation")
	p.Memory = o.mem
}

// unmap unmaps the memory of an operation that has ended.
func (o *op) unmap() {
	if m := o.mem; m != nil {
		o.mem = nil
		if err := m.Close(); err != nil {
			o.g.wk.l.j.fail("the memory of %s, which has ended, cannot be unmapped: %v", o.s, err)
		}
	}
}

// content sets the buffer of an operation and returns the argument of its call.
func (g *goroutine) content(s *Step, o *op, p *ucp.RequestParams) []byte {
	switch {
	case s.Flags&flagIOV != 0:
		p.Buffer = ucp.IOV(cut(o.buf, o.s.ID)...)
	case s.Flags&flagGeneric != 0:
		p.Buffer = ucp.Generic(blobs, &blob{o.buf, g.wk}, 1)
	default:
		return o.buf
	}
	return nil
}

// sentResult judges the end of a send.
func sentResult(o *op, err error) {
	j := o.g.wk.l.j
	if o.posted != 0 && o.r == nil && err != nil { // the call has failed
		if !errors.Is(err, ucs.ErrNoResource) || o.s.Flags&flagForce == 0 {
			j.expect(o, err, "a send")
		}
		if o.m.refused && o.allowed(err) { // by a handler of this worker
			j.settle(o.m)
			return
		}
		j.notSent(o.m)
		return
	}
	if err == nil {
		j.delivered(o)
	}
	j.expect(o, err, "a send")
	if k := mismatch(o.buf, o.m.id); k >= 0 {
		j.fail("the buffer of %s was changed at byte %d", o.s, k)
	}
}

// buffer returns n bytes for an operation, which are canary.
func (g *goroutine) buffer(n int) []byte {
	l := g.wk.l
	b := l.j.arena.take(n)
	if l.lossy {
		g.wk.buffers = append(g.wk.buffers, b)
	}
	return b
}
