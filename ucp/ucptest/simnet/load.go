//go:build simulate

package simnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// load is a program that runs.
//
// Each process opens its context and its workers, and publishes their addresses. When all have done
// that, the goroutines carry out their steps. The first goroutine of each worker then drains it: it
// receives everything that comes until nothing is left in the world (judge.quiet), cancels the
// receives that are left, and closes the worker.
type load struct {
	w         *World
	p         *Program
	j         *judge
	out       io.Writer // of the trace; nil without
	workers   []*worker
	processes []*process
	ready     int             // processes that have published their addresses
	closed    int             // workers that have closed their endpoints
	empty     int             // workers without endpoints
	over      int             // processes that have ended
	forced    bool            // there are steps that close endpoints by force
	broken    map[[2]int]bool // pairs of workers between which something may be lost
	closes    bool            // there are steps that close endpoints
}

// process is a process of a program.
type process struct {
	*Process
	l       *load
	plan    *ProcessPlan
	ctx     *ucp.Context
	workers []*worker
	over    int // workers that are closed
}

// worker is a worker of a program.
type worker struct {
	l           *load
	proc        *process
	plan        *WorkerPlan
	number      int
	w           *ucp.Worker
	addr        ucp.Address
	links       []link // by the number of the peer
	ops         []*op  // in flight
	reaping     bool
	held        []*op // sends that use their buffers until their endpoint is closed
	heldStreams []*op // the same of stream sends
	truncated   int   // receives that have ended with a message that was too long
	running     int   // goroutines
	all         []*goroutine
	am          amState
	rma         rmaState
}

// link is the endpoint of a worker to a peer.
type link struct {
	ep      *ucp.Endpoint
	failed  bool        // the endpoint has failed
	closing *op         // the close of the endpoint before this one
	keys    []*ucp.Rkey // of endpoints before this one
	making  bool        // a goroutine makes the endpoint or the key
	stream  streamState
	key     *ucp.Rkey
}

// goroutine is a goroutine of a worker.
type goroutine struct {
	wk     *worker
	number int // of all goroutines of the program
	steps  []Step
	step   []*op // operations of the current step
	waits  bool  // it waits for their requests
	params ucp.RequestParams
	words  []wordState
	slices []sliceState
}

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
	waited                bool // Request.Wait has canceled it
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

// Result is what a run of a program has done.
type Result struct {
	Err        error
	Messages   int // received
	Operations int // started
	Virtual    time.Duration
	Steps      uint64
	Digest     uint64
}

// limits of a run
const (
	maxSteps  = 2_000_000
	timeBound = 120 * time.Second // for the end of everything, after the last step
	lastTime  = time.Hour
)

// Run runs the program. If out is not nil it gets a trace.
func (p *Program) Run(out io.Writer) Result {
	w := New(p.Seed)
	defer w.Close()
	l := &load{w: w, p: p, out: out}
	l.j = &judge{l: l, flows: make(map[flow][]*message)}
	l.tap()
	l.start()
	err := w.Run(lastTime, func() bool { return l.over == len(l.processes) || l.j.err != nil || w.Steps() > maxSteps })
	j := l.j
	switch {
	case err != nil:
		j.fail("%v", err)
	case j.err != nil:
	case w.Steps() > maxSteps:
		j.fail("endless: %d steps until %v", w.Steps(), w.now)
	case l.over != len(l.processes):
		j.fail("stuck at %v: %s", w.now, l.waits())
	default:
		j.end()
	}
	j.arena.release(j.err == nil)
	return Result{Err: j.err, Messages: j.received, Operations: j.ops, Virtual: w.now, Steps: w.Steps(), Digest: w.Digest()}
}

// tracef writes a line of the trace.
func (l *load) tracef(format string, args ...any) {
	if l.out != nil {
		fmt.Fprintf(l.out, "%12v %s\n", l.w.now, fmt.Sprintf(format, args...))
	}
}

// tap puts what the transports do into the trace.
func (l *load) tap() {
	if l.out == nil {
		return
	}
	kinds := []string{"", "sent", "arrived", "ended", "no room", "failed", "dropped"}
	for _, n := range l.w.Net.nets {
		n.Tap(func(e sim.Event) {
			what := fmt.Sprintf("message %d", e.ID)
			switch {
			case e.Flush:
				what = "flush"
			case e.Size > 0:
				what = fmt.Sprintf("access of kind %d, %d bytes", e.Op, e.Size)
			case e.Kind == sim.Ended:
				what = "access"
			}
			if m, err := proto.ParseWireup(e.Data); err == nil && e.ID == uct.AMID(proto.IDWireup) && e.Size == 0 {
				what = fmt.Sprintf("wireup %v, sn %d, from endpoint %x to %x", m.Type, m.ConnSN, uint64(m.SrcEp)&0xffffff, uint64(m.DstEp)&0xffffff)
			}
			name := l.w.process.name
			l.tracef("%s %s: %s %s, number %d, from %x to %x, %d bytes, %v", name, e.Device, kinds[e.Kind], what, e.Number, e.From, e.To, len(e.Data), e.Err)
		})
	}
}

// faultless reports whether the run has no faults.
func (l *load) faultless() bool { return !l.forced }

// disturb records that what is under way between two workers may be lost.
func (l *load) disturb(a, b int) {
	if l.broken == nil {
		l.broken = make(map[[2]int]bool)
	}
	l.broken[[2]int{a, b}], l.broken[[2]int{b, a}] = true, true
}

// giveUp ends the wait for messages that may be lost. It returns false if something else is open.
func (l *load) giveUp() bool {
	for _, wk := range l.workers {
		if slices.ContainsFunc(wk.ops, func(o *op) bool { return !o.over && !o.uncounted }) {
			return false
		}
	}
	for i := range l.j.msgs {
		m := &l.j.msgs[i]
		if m.sent && !m.settled && !l.broken[[2]int{m.sender.g.wk.number, m.to}] && !l.j.couldBeTruncated(m) {
			return false
		}
	}
	l.tracef("the rest is lost")
	l.j.over = true
	l.w.stirAll()
	return true
}

// waits describes what has not ended.
func (l *load) waits() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d things are open", l.j.open)
	for _, wk := range l.workers {
		if wk.running > 0 {
			fmt.Fprintf(&b, "; worker %d: %d goroutines run", wk.number, wk.running)
		}
		for _, o := range wk.ops {
			if !o.over {
				fmt.Fprintf(&b, "; worker %d: operation of %s", wk.number, o.s)
			}
		}
		for k := range wk.links {
			if s := &wk.links[k].stream; s.sent > l.workers[k].links[wk.number].stream.received {
				fmt.Fprintf(&b, "; stream of worker %d to %d: %d of %d bytes", wk.number, k, l.workers[k].links[wk.number].stream.received, s.sent)
			}
		}
	}
	for i := range l.j.msgs {
		if m := &l.j.msgs[i]; m.sent && !m.settled {
			fmt.Fprintf(&b, "; message %d (%s) to worker %d", m.id, m.s, m.to)
		}
	}
	return b.String()
}

// start makes the processes of the program.
func (l *load) start() {
	last := 0
	for _, list := range l.p.lists() {
		for _, s := range *list {
			last = max(last, s.ID+s.N*s.messages())
			l.closes = l.closes || s.Kind == "close"
			l.forced = l.forced || s.Kind == "close" && s.How != 0
		}
	}
	l.j.msgs = make([]message, last+1)
	hosts := make([]*Host, max(1, l.p.Hosts))
	for k := range hosts {
		hosts[k] = l.w.NewHost()
	}
	goroutines := 0
	n := l.p.workers()
	for i := range l.p.Processes {
		plan := &l.p.Processes[i]
		pr := &process{l: l, plan: plan}
		l.processes = append(l.processes, pr)
		for k := range plan.Workers {
			wk := &worker{l: l, proc: pr, plan: &plan.Workers[k], number: len(l.workers), links: make([]link, n)}
			l.workers = append(l.workers, wk)
			pr.workers = append(pr.workers, wk)
			for _, steps := range wk.plan.Goroutines {
				g := &goroutine{wk: wk, number: goroutines, steps: steps}
				goroutines++
				wk.all = append(wk.all, g)
				wk.running++
				l.j.open++
			}
		}
	}
	l.layout()
	for _, pr := range l.processes {
		pr.Process = hosts[pr.plan.Host%len(hosts)].NewProcess(func(p *Process) {
			pr.Process = p
			pr.main()
		})
	}
}

// must ends the run if a call has failed that must not.
func (l *load) must(err error, what string) {
	if err != nil {
		l.j.fail("%s: %v", what, err)
		panic(killed{})
	}
}

// main is the first goroutine of a process.
func (pr *process) main() {
	l := pr.l
	cfg, err := ucp.ReadConfig("", "")
	l.must(err, "ReadConfig")
	for _, s := range pr.plan.Settings {
		name, value, _ := strings.Cut(s, "=")
		l.must(cfg.Modify(name, value), s)
	}
	pr.ctx, err = ucp.NewContext(ucp.ContextParams{
		Features: ucp.FeatureTag | ucp.FeatureAM | ucp.FeatureStream | ucp.FeatureRMA | ucp.FeatureAMO32 | ucp.FeatureAMO64 | ucp.FeatureWakeup,
		Logger:   slog.New(&logHandler{l}),
	}, cfg)
	l.must(err, "NewContext")
	mode := ucs.ThreadModeSingle
	if pr.plan.Multi {
		mode = ucs.ThreadModeMulti
	}
	for _, wk := range pr.workers {
		wk.w, err = pr.ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode})
		l.must(err, "NewWorker")
		wk.addr, err = wk.w.Address(0)
		l.must(err, "Address")
		wk.am.open(wk)
		wk.rma.open(wk)
	}
	if l.ready++; l.ready == len(l.processes) {
		l.w.stirAll()
	}
	pr.Until(func() bool { return l.ready == len(l.processes) })
	for _, wk := range pr.workers {
		for _, g := range wk.all {
			pr.Go(fmt.Sprintf("goroutine %d of worker %d", g.number, wk.number), g.run)
		}
	}
	pr.Until(func() bool { return pr.over == len(pr.workers) })
	for _, wk := range pr.workers {
		wk.rma.close(wk)
	}
	l.must(pr.ctx.Close(), "Context.Close")
	pr.nothingLeft()
	l.over++
	l.tracef("process %s is over", pr.name)
}

// nothingLeft checks the accounts of a process that has closed everything.
func (pr *process) nothingLeft() {
	for k := range ledger.NumKinds {
		if n := ledger.Total(k); n != 0 {
			pr.l.j.fail("%d %v are left in the ledger of process %s", n, k, pr.name)
		}
	}
	if n := ledger.OpenAccounts(); n != 0 {
		pr.l.j.fail("%d accounts are left in the ledger of process %s: %v", n, pr.name, ledger.Accounts())
	}
}

// stirAll makes all processes check what they wait for.
func (w *World) stirAll() {
	for _, p := range w.processes {
		if !p.ended {
			w.schedule(w.now, p, func() { p.stirs++ })
		}
	}
}

// run carries out the steps of a goroutine.
func (g *goroutine) run() {
	wk := g.wk
	l := wk.l
	for k := range g.steps {
		s := &g.steps[k]
		if l.j.err != nil {
			return
		}
		if s.Delay > 0 {
			wk.proc.Sleep(s.Delay)
		}
		l.tracef("worker %d.%d: %s", wk.number, g.number, s)
		g.step = g.step[:0]
		kinds[s.Kind].do(g, s)
		g.waitStep(s)
	}
	g.flushAll()
	wk.running--
	l.j.add(-1)
	l.tracef("worker %d.%d: all steps are done", wk.number, g.number)
	if g == wk.all[0] {
		g.drain()
	}
}

// waitStep waits for the operations of a step, at most as long as the step says.
func (g *goroutine) waitStep(s *Step) {
	if s.Wait > 0 {
		if s.Flags&flagCallback == 0 && s.Class%2 == 0 {
			g.waitRequests(s.Wait)
		} else {
			g.wait(g.wk.l.w.now+s.Wait, func() bool {
				for _, o := range g.step {
					if !o.isDone() {
						return false
					}
				}
				return true
			})
		}
	}
	if s.Flags&flagCancel != 0 {
		for _, o := range g.step {
			if !o.over && o.r != nil {
				o.cancel()
			}
		}
	}
	g.wk.reap()
}

// isDone reports whether the operation has ended, without judging it.
func (o *op) isDone() bool {
	if o.callback || o.over {
		return o.over
	}
	return o.r.Done()
}

// waitRequests waits for each request of the step by Request.Wait.
func (g *goroutine) waitRequests(d time.Duration) {
	ctx, cancel := platform.WithTimeout(context.Background(), d)
	defer cancel()
	g.waits = true
	defer func() {
		g.waits = false
		for _, o := range g.step {
			if o.over && !o.callback {
				o.free()
			}
		}
	}()
	for _, o := range g.step {
		if o.over {
			continue
		}
		o.waited = o.mayCancel
		err := o.r.Wait(ctx)
		if o.r.Done() {
			continue
		}
		o.waited = false
		if !errors.Is(err, context.DeadlineExceeded) {
			g.wk.l.j.fail("Request.Wait of an operation in flight: %v (%s)", err, o.s)
		}
	}
}

// condition is a context that ends at a time, or when done returns true.
type condition struct {
	context.Context
	w     *World
	until time.Duration
	done  func() bool
}

func (c *condition) Err() error {
	if c.w.now >= c.until || c.done() {
		return context.Canceled
	}
	return nil
}

// wait progresses the worker until done returns true, which must not call the library, or until a
// time.
func (g *goroutine) wait(until time.Duration, done func() bool) {
	wk := g.wk
	w := wk.l.w
	if !wk.proc.plan.Multi {
		wk.proc.poll(wk.w, until, func() bool { return done() || wk.l.j.err != nil || w.now >= until })
		return
	}
	if until != platform.Never {
		e := w.schedule(until, wk.proc.Process, func() {})
		defer w.cancel(e)
	}
	c := &condition{context.Background(), w, until, func() bool { return done() || wk.l.j.err != nil }}
	if c.Err() == nil {
		wk.w.Run(c)
	}
}

// reap judges the operations that have ended.
func (wk *worker) reap() {
	if wk.reaping {
		return
	}
	wk.reaping = true
	defer func() { wk.reaping = false }()
	for _, o := range wk.ops {
		if !o.over && !o.callback && o.r.Done() {
			o.end(o.r.Err())
		}
	}
	wk.ops = slices.DeleteFunc(wk.ops, func(o *op) bool { return o.over })
	wk.am.reap(wk)
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
		p.Buffer = ucp.Generic(blobs, &blob{o.buf, g.wk.l.j}, 1)
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
	j.expect(o, err, "a send")
	if k := mismatch(o.buf, o.m.id); k >= 0 {
		j.fail("the buffer of %s was changed at byte %d", o.s, k)
	}
}

// link returns the endpoint to a worker, and makes it if there is none.
func (g *goroutine) link(peer int) *link {
	wk := g.wk
	n := &wk.links[peer]
	if n.making {
		wk.proc.Until(func() bool { return !n.making })
	}
	if n.failed {
		g.closeLink(&Step{Kind: "close", Peer: peer})
	}
	if n.ep == nil {
		n.making = true
		defer func() { n.making = false }()
		p := ucp.EndpointParams{Address: wk.l.workers[peer].addr}
		if wk.l.p.PeerMode {
			p.ErrMode = ucp.ErrModePeer
			p.OnError = func(ep *ucp.Endpoint, err error, _ any) { wk.failed(peer, ep, err) }
		}
		ep, err := wk.w.NewEndpoint(p)
		wk.l.must(err, "NewEndpoint")
		n.ep = ep
	}
	return n
}

// failed is called when an endpoint has failed.
func (wk *worker) failed(peer int, ep *ucp.Endpoint, err error) {
	if !wk.l.broken[[2]int{wk.number, peer}] {
		wk.l.j.fail("an endpoint of worker %d to %d has failed: %v", wk.number, peer, err)
	}
	if n := &wk.links[peer]; n.ep == ep {
		n.failed = true
	}
}

// drain receives what comes until the world is quiet, and closes the worker.
func (g *goroutine) drain() {
	wk := g.wk
	l := wk.l
	bound := l.w.now + timeBound
	g.serve(platform.Never, func() bool {
		if l.w.now > bound && l.idle() && l.j.err == nil && !l.j.quiet() && !(l.forced && l.giveUp()) {
			l.j.fail("not at an end %v after the last step: %s", timeBound, l.waits())
		}
		return l.j.quiet()
	})
	l.tracef("worker %d: quiet", wk.number)
	g.step = g.step[:0]
	for _, o := range slices.Clone(wk.ops) {
		if !o.over && o.r != nil && !o.r.Done() {
			o.cancel()
		}
	}
	g.finish("canceled receives")
	wk.release()
	for k := range wk.links {
		g.close(k)
	}
	g.finish("closes")
	wk.giveHeld()
	wk.giveStreams()
	// Endpoints that peers have opened go with those of the peers.
	g.barrier(&l.closed)
	g.serve(l.w.now+timeBound, func() bool { return wk.w.Stats().Endpoints == 0 })
	g.barrier(&l.empty)
	// A late message may have opened an endpoint for the answer that its own endpoint is gone.
	g.serve(l.w.now+timeBound, func() bool { return wk.w.Stats().Endpoints == 0 })
	if l.j.err != nil {
		return
	}
	g.checkStats()
	l.must(wk.w.Close(), "Worker.Close")
	wk.proc.over++
}

// serve progresses the worker, and receives what comes, until done returns true or until a time.
func (g *goroutine) serve(until time.Duration, done func() bool) {
	wk := g.wk
	l := wk.l
	for pause := time.Millisecond; ; {
		stirs := wk.proc.stirs
		n := wk.w.Progress()
		wk.reap()
		n += g.take()
		if done() || l.j.err != nil || l.w.now >= until {
			return
		}
		if n > 0 {
			pause = time.Millisecond
			l.w.Yield()
			continue
		}
		// In thread mode multi another goroutine may receive something. A run without an end must not
		// go unnoticed, either.
		next := l.w.now + 10*time.Second
		if wk.proc.plan.Multi {
			next = l.w.now + pause
			pause = min(2*pause, time.Second)
		}
		g.wait(min(next, until), func() bool { return wk.proc.stirs != stirs })
	}
}

// barrier waits until all workers have come to it.
func (g *goroutine) barrier(n *int) {
	l := g.wk.l
	*n++
	if *n == len(l.workers) {
		l.w.stirAll()
	}
	g.serve(l.w.now+timeBound, func() bool { return *n == len(l.workers) })
	if *n != len(l.workers) {
		l.j.fail("only %d of %d workers have come to an end", *n, len(l.workers))
	}
}

// idle reports whether all goroutines have carried out their steps.
func (l *load) idle() bool {
	return !slices.ContainsFunc(l.workers, func(wk *worker) bool { return wk.running > 0 })
}

// finish waits for all operations of the worker.
func (g *goroutine) finish(what string) {
	wk := g.wk
	done := func() bool {
		return !slices.ContainsFunc(wk.ops, func(o *op) bool { return !o.isDone() })
	}
	g.wait(wk.l.w.now+timeBound, done)
	if wk.l.j.err == nil && !done() {
		wk.l.j.fail("%s of worker %d do not end: %s", what, wk.number, wk.l.waits())
	}
	wk.reap()
}

// take receives a message that no receive has matched, and what else has come.
func (g *goroutine) take() (n int) {
	for {
		begin := g.wk.l.j.tick()
		m, ok := g.wk.w.TagTake(0, 0)
		if !ok {
			break
		}
		n++
		g.receive(m, &drainStep, 0, 0, begin)
	}
	n += g.wk.am.take(g)
	for k := range g.wk.links {
		n += g.readStream(k)
	}
	return n
}

// drainStep is the step of operations of drain.
var drainStep = Step{Kind: "drain"}

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
	if s.How != 0 && g.wk.l.p.PeerMode {
		p.CloseFlags = ucp.CloseForce // done in the call
		p.Flags = 0
		s.Flags &^= flagNoImm
		g.wk.l.disturb(g.wk.number, s.Peer)
	}
	ep := n.ep
	n.ep, n.closing, n.failed = nil, o, false
	if n.key != nil {
		n.keys = append(n.keys, n.key)
		n.key = nil
	}
	r, err := ep.CloseAsync(p)
	g.submit(o, r, err)
}

// settled reports whether the effects of all one-sided operations before are known or ordered: the
// endpoint before this one is closed.
func (n *link) settled() bool { return n.closing == nil || n.closing.over }

// release gives back what the program holds of the worker.
func (wk *worker) release() { wk.am.release(wk) }

// checkStats checks the counters of a worker that is about to be closed.
func (g *goroutine) checkStats() {
	s := g.wk.w.Stats()
	for _, c := range []struct {
		name string
		n    uint64
	}{
		{"Malformed", s.Malformed}, {"Evicted", s.Evicted}, {"Refused", s.Refused}, {"Abandoned", s.Abandoned},
		{"Failures", s.Failures}, {"Denied", s.Denied}, {"AMNoHandler", s.AMNoHandler},
		{"UnexpectedBytes", uint64(s.UnexpectedBytes)}, {"OwedBytes", uint64(s.OwedBytes)},
		{"Endpoints", uint64(s.Endpoints)},
	} {
		if c.name == "Failures" && g.wk.l.closes {
			continue // closed endpoints count that the library keeps
		}
		strict := c.name == "UnexpectedBytes" || c.name == "OwedBytes" || c.name == "Endpoints" || c.name == "Malformed"
		if c.n != 0 && (strict || g.wk.l.faultless()) {
			g.wk.l.j.fail("at the end %s of worker %d is %d", c.name, g.wk.number, c.n)
		}
	}
}

// logHandler makes messages of the library part of the trace. In a run without faults there must be
// no warnings.
type logHandler struct{ l *load }

func (h *logHandler) Enabled(_ context.Context, v slog.Level) bool {
	return v >= slog.LevelWarn || h.l.out != nil && v >= slog.LevelDebug
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Level != slog.LevelInfo && r.Message != "transport not used" {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			return true
		})
		h.l.tracef("log: %v: %s", r.Level, text)
	}
	if r.Level >= slog.LevelWarn && h.l.faultless() {
		h.l.j.fail("the library logs: %s", r.Message)
	}
	return nil
}

func (h *logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *logHandler) WithGroup(string) slog.Handler      { return h }
