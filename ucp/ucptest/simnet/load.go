//go:build simulate

package simnet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
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
	hosts     []*Host
	ready     int             // processes that have published their addresses
	begun     int             // processes that know the addresses of all
	over      int             // processes that have ended
	lossy     bool            // something may be lost
	broken    map[[2]int]bool // pairs of workers between which something may be lost
	closes    bool            // there are steps that close endpoints
	idleAt    time.Duration   // when all goroutines had carried out their steps
	faultAt   time.Duration   // when a fault began or ended last: what is sent again comes some time after
}

// process is a process of a program.
type process struct {
	*Process
	l        *load
	plan     *ProcessPlan
	ctx      *ucp.Context
	workers  []*worker
	number   int
	over     int  // workers that are closed
	finished bool // everything is closed
	lies     bool // its messages may be wrong
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
	listener    *ucp.Listener
	accepted    []acceptedLink
	rejects     int   // clients to be rejected
	ops         []*op // in flight
	reaping     bool
	held        []*op // sends that use their buffers until their endpoint is closed
	heldStreams []*op // the same of stream sends
	leaving     bool  // it is being closed
	late        bool  // receives may end when all possible senders are gone, whose senders have died over netshm
	taking      int   // calls of TagTake
	truncated   int   // receives that have ended with a message that was too long
	running     int   // goroutines
	all         []*goroutine
	stage       int  // number of barriers that it has come to
	dead        bool // its process was killed, or it has quit
	buffers     [][]byte
	packs       int // states of datatypes that were started and not finished
	unpacks     int
	am          amState
	rma         rmaState
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

// Result is what a run of a program has done.
type Result struct {
	Err        error
	Messages   int // received
	Operations int // started
	Faults     int // that have happened
	Virtual    time.Duration
	Steps      uint64
	Digest     uint64
}

// limits of a run
const (
	maxSteps  = 4_000_000
	timeBound = 120 * time.Second // for the end of everything, after the last step
	lossBound = 5 * time.Second   // for the arrival of what may be lost

	// quietBound is how long after the last step of a program without faults something may come or end.
	// What waits for a wakeup that is lost waits longer.
	quietBound = 5 * time.Second
	lastTime   = time.Hour
)

// Run runs the program. If out is not nil it gets a trace.
func (p *Program) Run(out io.Writer) Result {
	w := New(p.Seed)
	defer w.Close()
	l := &load{w: w, p: p, out: out}
	l.j = &judge{l: l, flows: make(map[flow][]*message), ams: make(map[flow][]*message)}
	if p.Slow > 0 {
		w.Net.Between.Byte, w.Net.Within.Byte = int64(p.Slow)*1000, int64(p.Slow)*1000
	}
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
	return Result{Err: j.err, Messages: j.received, Operations: j.ops, Faults: j.faults, Virtual: w.now, Steps: w.Steps(), Digest: w.Digest()}
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
func (l *load) faultless() bool { return !l.lossy && len(l.p.Faults) == 0 }

// background reports whether a goroutine of the library makes progress in a process: the program only looks
// now and then whether it has.
func (l *load) background() bool {
	return slices.ContainsFunc(l.processes, func(pr *process) bool { return pr.plan.Background })
}

// readsAll reports whether what has arrived at a process that makes progress is handled soon: there are no
// faults and no slow ways, and no stream that is not read stops the rest of its connection.
func (l *load) readsAll() bool {
	stops := func(pr *process) bool { return pr.plan.has("STREAM_MAX_UNREAD") }
	return l.faultless() && l.p.Slow == 0 && !slices.ContainsFunc(l.processes, stops)
}

// isBroken reports whether something may be lost between a worker and a peer.
func (wk *worker) isBroken(peer int) bool { return wk.l.broken[[2]int{wk.number, peer}] }

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
		if m.sent && !m.settled && !m.sender.g.wk.isBroken(m.to) && !l.j.couldBeTruncated(m) {
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
			l.closes = l.closes || s.Kind == "close" || s.Kind == "quit"
			l.lossy = l.lossy || s.Kind == "close" && s.How != 0 || s.Kind == "quit" || s.Kind == "shut" || s.Kind == "reject"
		}
	}
	l.lossy = l.lossy || l.p.lossy()
	l.j.msgs = make([]message, last+1)
	for range max(1, l.p.Hosts) {
		l.hosts = append(l.hosts, l.w.NewHost())
	}
	goroutines := 0
	n := l.p.workers()
	for i := range l.p.Processes {
		plan := &l.p.Processes[i]
		pr := &process{l: l, plan: plan, number: i}
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
	for _, wk := range l.workers {
		if wk.proc.plan.has("MAX_UNEXP_") {
			wk.disturbAll() // at the limit of a budget peers lose their connections
			l.lossy = true
		}
	}
	l.layout()
	for _, pr := range l.processes {
		pr.Process = l.hosts[pr.plan.Host%len(l.hosts)].NewProcess(func(p *Process) {
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
		wk.w, err = pr.ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode, Background: pr.plan.Background})
		l.must(err, "NewWorker")
		wk.addr, err = wk.w.Address(0)
		l.must(err, "Address")
		if l.p.Listen {
			wk.listen()
		}
		wk.am.open(wk)
		wk.rma.open(wk)
	}
	if l.ready++; l.ready == len(l.processes) {
		l.w.stirAll()
	}
	pr.Until(func() bool { return l.ready == len(l.processes) })
	if slices.Contains(pr.plan.Settings, "CLOSED=y") {
		pr.allowAll()
	}
	if l.begun++; l.begun == len(l.processes) {
		l.schedule()
		l.w.stirAll()
	}
	pr.Until(func() bool { return l.begun == len(l.processes) })
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
	pr.finished = true
	l.over++
	l.tracef("process %s is over", pr.name)
}

// allowAll admits the workers of the program where others are refused.
func (pr *process) allowAll() {
	for _, wk := range pr.workers {
		for _, peer := range pr.l.workers {
			pr.l.must(wk.w.Allow(peer.addr), "Worker.Allow")
		}
	}
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
		if wk.dead {
			return
		}
		g.waitStep(s)
	}
	g.flushAll()
	if wk.running--; l.idle() {
		l.idleAt = l.w.now
	}
	l.j.add(-1)
	l.tracef("worker %d.%d: all steps are done", wk.number, g.number)
	if g == wk.all[0] {
		g.drain()
	}
}

// reap judges the operations that have ended, and returns their number.
func (wk *worker) reap() (n int) {
	if wk.reaping {
		return 0
	}
	wk.reaping = true
	defer func() { wk.reaping = false }()
	for _, o := range wk.ops {
		if !o.over && !o.callback && o.r.Done() {
			o.end(o.r.Err())
			n++
		}
	}
	wk.ops = slices.DeleteFunc(wk.ops, func(o *op) bool { return o.over })
	wk.am.reap(wk)
	return n
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
