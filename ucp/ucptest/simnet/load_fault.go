//go:build simulate

package simnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct"
)

// Faults of a program. Those that may lose something need ErrModePeer: without it an operation whose
// peer is gone never ends.

// Fault is something that goes wrong in a run.
type Fault struct {
	Kind string
	At   time.Duration // since all processes have opened their workers
	For  time.Duration // until it is over
	A, B int           // processes or hosts
	N    int
}

// faultKind is a kind of fault.
type faultKind struct {
	// begin makes it happen. It returns what ends it, or nil.
	begin func(l *load, f *Fault) (end func())

	// affects reports whether what is under way between two workers may be lost.
	affects func(f *Fault, a, b *worker) bool

	loses bool // something may be lost even if the fault is short
	hosts int  // number of hosts among A and B; the others are processes
}

// brief is how long an outage may last that no transport notices.
const brief = 50 * time.Millisecond

var faultKinds = map[string]faultKind{
	// kill ends process A, half of the time in the middle of a message.
	"kill": {begin: (*load).kill, affects: ofProcess, loses: true},

	// refuse refuses a request of resources of process A, the Nth from then on.
	"refuse": {begin: (*load).refuse, affects: ofProcess, loses: true},

	// freeze stops process A.
	"freeze": {begin: func(l *load, f *Fault) func() {
		p := l.processes[f.A].Process
		p.Freeze()
		return p.Thaw
	}, affects: ofProcess},

	// cut cuts the way from host A to host B.
	"cut": {begin: func(l *load, f *Fault) func() {
		a, b := l.hosts[f.A], l.hosts[f.B]
		l.w.Net.Cut(a, b)
		return func() { l.w.Net.Heal(a, b) }
	}, affects: betweenHosts, hosts: 2},

	// partition cuts the ways between hosts A and B.
	"partition": {begin: func(l *load, f *Fault) func() {
		a, b := l.hosts[f.A], l.hosts[f.B]
		l.w.Net.Partition(a, b)
		return func() { l.w.Net.Heal(a, b) }
	}, affects: betweenHosts, hosts: 2},

	// vanish unplugs host A.
	"vanish": {begin: func(l *load, f *Fault) func() {
		l.hosts[f.A].Vanish()
		return l.hosts[f.A].Return
	}, affects: func(f *Fault, a, b *worker) bool {
		x, y := a.proc.host.number-1, b.proc.host.number-1
		return x != y && (x == f.A || y == f.A)
	}, hosts: 1},

	// lie makes process A send N of 100 messages without payload with wrong headers, and ends it after that.
	"lie": {begin: (*load).lie, affects: ofProcess, loses: true},

	// loss loses N of 100 messages on the way from host A to host B. They are sent again.
	"loss": {begin: func(l *load, f *Fault) func() {
		w := l.w.Net.Way(l.hosts[f.A], l.hosts[f.B])
		w.Loss = float64(f.N) / 100
		return func() { w.Loss = 0 }
	}, affects: betweenHosts, loses: true, hosts: 2},
}

// ofProcess reports whether one of two workers belongs to process A.
func ofProcess(f *Fault, a, b *worker) bool {
	return a.proc.number == f.A || b.proc.number == f.A
}

// betweenHosts reports whether two workers are on hosts A and B.
func betweenHosts(f *Fault, a, b *worker) bool {
	x, y := a.proc.host.number-1, b.proc.host.number-1
	return x == f.A && y == f.B || x == f.B && y == f.A
}

// loses reports whether something may be lost because of the fault.
func (f *Fault) loses() bool { return faultKinds[f.Kind].loses || f.For > brief }

// schedule makes the faults of the program happen.
func (l *load) schedule() {
	for k := range l.p.Faults {
		f := &l.p.Faults[k]
		if n := len(l.hosts); faultKinds[f.Kind].hosts > 0 && (f.A >= n || f.B >= n) || faultKinds[f.Kind].hosts == 0 && f.A >= len(l.processes) {
			continue // a program that was made smaller
		}
		l.w.At(l.w.now+f.At, func() { l.happen(f) })
	}
}

func (l *load) happen(f *Fault) {
	kind := faultKinds[f.Kind]
	l.faultAt = l.w.now
	l.tracef("fault: %s", f)
	l.j.faults++
	if f.loses() {
		for _, a := range l.workers {
			for _, b := range l.workers {
				if kind.affects(f, a, b) {
					l.disturb(a.number, b.number)
				}
			}
		}
	}
	if end := kind.begin(l, f); end != nil {
		l.w.At(l.w.now+f.For, func() {
			l.faultAt = l.w.now
			l.tracef("end of fault: %s", f)
			end()
		})
	}
}

// kill ends a process. What its workers have begun does not end any more.
func (l *load) kill(f *Fault) func() {
	pr := l.processes[f.A]
	if pr.finished || pr.Ended() {
		return nil
	}
	pr.Kill()
	l.over++
	for _, wk := range pr.workers {
		wk.gone()
		for _, o := range wk.ops {
			if !o.over && !o.uncounted {
				l.j.add(-1)
			}
		}
		wk.ops = nil
		for _, b := range wk.buffers {
			fillCanary(b)
		}
		wk.packs, wk.unpacks = 0, 0
	}
	l.settleDead()
	l.w.stirAll()
	return nil
}

// headers are the messages that a process lies in: those whose data is not received by the application.
var headers = []proto.AMID{
	proto.IDWireup, proto.IDToken, proto.IDEagerSyncAck, proto.IDRndvATS, proto.IDRndvRTR, proto.IDRndvATP, proto.IDEpClose,
	proto.IDGetReq, proto.IDAtomicRep, proto.IDCmpl,
}

// lie makes a process lie until the end of the fault, when it is killed.
func (l *load) lie(f *Fault) func() {
	pr := l.processes[f.A]
	pr.lies = true
	pr.forge = func(id uct.AMID, data []byte) {
		r := l.w.rng
		if len(data) == 0 || r.IntN(100) >= f.N || !slices.Contains(headers, proto.AMID(id)) {
			return
		}
		if id == uct.AMID(proto.IDRndvRTR) {
			data = data[:min(len(data), 16)] // a wrong address would be one of this process's memory
		}
		l.tracef("process %s lies in a message %v", pr.name, proto.AMID(id))
		for range 1 + r.IntN(3) {
			at := r.IntN(len(data))
			switch r.IntN(3) {
			case 0:
				data[at] ^= 1 << r.IntN(8)
			case 1:
				data[at] = byte(r.Uint32())
			default:
				copy(data[at:], extremes[r.IntN(len(extremes))])
			}
		}
	}
	return func() { l.kill(f) }
}

// extremes are bytes that a header has room for.
var extremes = [][]byte{make([]byte, 8), bytes.Repeat([]byte{0xff}, 8), {0xff, 0xff, 0xff, 0x7f}, {0, 0, 0, 0, 0, 0, 0, 0x80}}

// trusts reports whether neither end of a message lies.
func (j *judge) trusts(m *message) bool {
	return !m.sender.g.wk.proc.lies && !j.l.workers[m.to].proc.lies
}

// gone records that the worker does nothing any more.
func (wk *worker) gone() {
	wk.dead = true
	wk.l.j.add(-wk.running)
	wk.running = 0
}

// settleDead settles the messages from and to workers that are gone.
func (l *load) settleDead() {
	for i := range l.j.msgs {
		if m := &l.j.msgs[i]; m.sent && (l.workers[m.to].dead || m.sender.g.wk.dead) {
			l.j.settle(m)
		}
	}
}

// quit closes the worker in the middle of everything, without closing its endpoints before, by Close or by
// Shutdown. All operations in flight must end.
func (g *goroutine) quit(s *Step) {
	wk := g.wk
	l := wk.l
	wk.disturbAll()
	wk.leaving = true
	var keys []*ucp.Rkey
	for k := range wk.links {
		n := &wk.links[k]
		if keys = append(keys, n.keys...); n.key != nil {
			keys = append(keys, n.key)
		}
	}
	for _, o := range wk.ops {
		o.waited = true // it may end with ErrCanceled, and may have had a message
	}
	if s.How%2 == 0 {
		wk.am.reap(wk)
		for _, k := range keys {
			l.must(k.Close(), "Rkey.Close")
		}
	}
	if s.How >= 2 {
		ctx, cancel := platform.WithTimeout(context.Background(), max(s.Wait, 1))
		err := wk.w.Shutdown(ctx)
		cancel()
		l.tracef("worker %d: Shutdown: %v", wk.number, err)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			l.j.fail("Worker.Shutdown: %v", err)
		}
	}
	for k := range wk.links {
		if n := &wk.links[k]; n.ep != nil {
			n.end.closed = true
		}
	}
	for _, n := range wk.accepted {
		n.end.closed = true
	}
	wk.am.kept = nil // kept messages, also those of the Shutdown, are valid until the worker is closed
	l.must(wk.w.Close(), "Worker.Close")
	wk.reap()
	for _, o := range wk.ops {
		l.j.fail("an operation has not ended with its worker: %s", o.s)
	}
	if s.How%2 != 0 {
		for _, k := range keys {
			k.Close()
		}
	}
	wk.giveHeld()
	wk.giveStreams()
	for _, b := range wk.buffers {
		if k := notCanary(b); k >= 0 {
			l.j.fail("worker %d has quit, and byte %d of a buffer of %d bytes is in use", wk.number, k, len(b))
		}
	}
	wk.gone()
	l.settleDead()
	wk.proc.over++
	l.w.stirAll()
}

func (l *load) refuse(f *Fault) func() {
	p := l.processes[f.A].Process
	at := p.Claims() + uint64(f.N)
	p.Refuse = func(number uint64) bool { return number == at }
	return nil
}

// String returns the fault as text.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at=%s a=%d", f.Kind, f.At, f.A)
	if f.For != 0 {
		fmt.Fprintf(&b, " for=%s", f.For)
	}
	if f.B != 0 {
		fmt.Fprintf(&b, " b=%d", f.B)
	}
	if f.N != 0 {
		fmt.Fprintf(&b, " n=%d", f.N)
	}
	return b.String()
}

func parseFault(words []string) (f Fault, err error) {
	f.Kind = words[0]
	if _, ok := faultKinds[f.Kind]; !ok {
		return f, fmt.Errorf("unknown fault %q", f.Kind)
	}
	for _, w := range words[1:] {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "at":
			f.At, err = time.ParseDuration(value)
		case "for":
			f.For, err = time.ParseDuration(value)
		case "a":
			f.A, err = strconv.Atoi(value)
		case "b":
			f.B, err = strconv.Atoi(value)
		case "n":
			f.N, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// lossy reports whether something may be lost in the program.
func (p *Program) lossy() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.loses() })
}
