//go:build simulate

package simnet

import (
	"errors"

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
	canceled  bool // it may have had a message before
	idle      bool // it was canceled without a message

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
	o.over, o.err = true, err
	o.ended = j.tick()
	if o.g.wk.l.out != nil {
		o.g.wk.l.tracef("worker %d.%d: end of %s: %v", o.g.wk.number, o.g.number, o.s, err)
	}
	o.done(o, err)
	fillCanary(o.buf)
	fillCanary(o.head)
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
	o.end(err)
}

func onSend(r *ucp.Request, err error, u any) { u.(*op).called(r, err) }

// cancel cancels an operation.
func (o *op) cancel() {
	o.stopped = o.g.wk.l.j.tick()
	o.g.wk.l.tracef("worker %d.%d: cancel of %s", o.g.wk.number, o.g.number, o.s)
	o.g.wk.w.Cancel(o.r)
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
