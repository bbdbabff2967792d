//go:build linux

package interop

import (
	"fmt"
	"net/netip"
	"time"
)

// stage is two processes that run cells one after the other, each cell between new workers.
type stage struct {
	where   *place
	link    link
	pairing pairing
	pair    *pair // nil after a failure
	msgs    messages
}

// endingEnv makes keepalive probes frequent, which detect a dead peer where nothing else does, and
// stops C from analyzing its crashes, which takes seconds.
var endingEnv = []string{"UCX_KEEPALIVE_INTERVAL=20ms", "UCX_HANDLE_ERRORS=none"}

// scene is the run of one cell on a stage.
type scene struct {
	cell endingCell
	a, b *peer
	ep   int // on both sides; also the number of memory and key
	m    message

	request   int  // of the operation
	isReceive bool // as wait has to know
	closing   int  // of the close, if closes
	closes    bool
	got       int // number of the receive's request at b
	posted    bool
	hand      string // state of the message at b's handler: here or offered
	addr      uint64 // of memory at b
	mapped    bool
}

func (s *stage) start() error {
	p, err := startApart(s.where, s.where.opposite(), s.pairing.a, s.pairing.b,
		setting{mode: s.link.mode, both: endingEnv}, s.link.over, s.link.over)
	s.pair = p
	return err
}

// give kills the processes, as their state is unknown.
func (s *stage) give() {
	if s.pair != nil {
		_ = s.pair.abort() // the errors have included their last output
		s.pair = nil
	}
}

// leave ends the processes.
func (s *stage) leave() {
	s.give()
}

// play runs cells of the same phase and end, all between the same workers, and returns the
// outcomes. The expected outcomes, which may be empty, determine how long it waits.
func (s *stage) play(cells []endingCell, expected []outcomeSet) ([]endingOutcome, error) {
	seen := make([]endingOutcome, len(cells))
	if s.pair == nil {
		if err := s.start(); err != nil {
			return seen, err
		}
	}
	act := &act{stage: s, a: s.pair.ours, b: s.pair.theirs, how: cells[0].how, phase: cells[0].phase}
	act.closer, act.other = act.a, act.b
	if cells[0].who == "peer" {
		act.closer, act.other = act.b, act.a
	}
	for i, c := range cells {
		act.scenes = append(act.scenes, &scene{cell: c, a: act.a, b: act.b, ep: i, m: s.msgs.next(c.op.size)})
	}
	err := act.run(expected, seen)
	if err == nil && act.how != "killed" {
		if err = act.tidy(); err == nil {
			return seen, nil
		}
		// The outcome is complete. C may abort with its worker while an operation is in progress.
		if _, crashed := s.crashed(act); crashed != nil && !crashed.ours || act.untold {
			err = nil
		}
	}
	if err == nil {
		s.give()
		return seen, nil
	}
	if name, crashed := s.crashed(act); crashed != nil {
		for i := range seen {
			for k := range seen[i] {
				seen[i][k] = absent
			}
			seen[i][0] = "crash:" + name
		}
		crashed.err = err
		return seen, crashed
	}
	return seen, err
}

// crashed returns the process that has exited by itself, if any.
func (s *stage) crashed(x *act) (name string, crashed *crash) {
	for _, side := range []struct {
		name string
		peer *peer
		program
	}{{"A", x.a, s.pairing.a}, {"B", x.b, s.pairing.b}} {
		if x.how == "killed" && side.peer == x.closer {
			continue
		}
		select {
		case <-side.peer.process.ended:
			return side.name, &crash{side: side.name, ours: side.program.ours}
		case <-time.After(50 * time.Millisecond): // the pipe may be closed before Wait has returned
		}
	}
	return "", nil
}

// act is a set of cells that are run together.
type act struct {
	*stage
	a, b          *peer
	closer, other *peer
	how, phase    string
	scenes        []*scene
	held          *peer
	untold        bool     // the closer's answer is outstanding
	retired       [2]bool  // workers closed: a's, b's
	asked         []any    // the command to answer
	ending        []string // its answer, nil before
}

func (x *act) each(fn func(s *scene) error) error {
	for _, s := range x.scenes {
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// run runs the script and its watches.
func (x *act) run(expected []outcomeSet, seen []endingOutcome) error {
	if err := x.connect(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := x.each(func(s *scene) error {
		if s.cell.op.prepare == nil {
			return nil
		}
		return s.cell.op.prepare(s)
	}); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	start := func() error { return x.each(func(s *scene) error { return s.cell.op.start(s) }) }
	arrived := func() error {
		return x.each(func(s *scene) error {
			if s.cell.op.arrived == nil {
				return nil
			}
			return s.cell.op.arrived(s)
		})
	}
	var script []func() error
	switch x.phase {
	case "unseen":
		script = []func() error{x.hold(x.b), start, x.end, x.resume, x.receive}
	case "arrived":
		script = []func() error{start, arrived, x.end, x.receive}
	case "matched":
		script = []func() error{x.receive, x.hold(x.b), start, x.end, x.resume}
	case "fetching":
		script = []func() error{start, arrived, x.hold(x.a), x.receive, x.end, x.resume}
	case "posted":
		script = []func() error{start, x.end, x.receive}
	case "done":
		script = []func() error{x.receive, start, x.finish, x.end}
	}
	for k, step := range script {
		if err := step(); err != nil {
			return fmt.Errorf("step %d of %s: %w", k, x.phase, err)
		}
	}
	return x.watch(expected, seen)
}

// connect makes workers and endpoints, and checks that they work.
func (x *act) connect() error {
	for _, p := range []*peer{x.a, x.b} {
		if err := p.do("use", 1); err != nil {
			return err
		}
	}
	if x.link.dial {
		values, err := x.b.command("listen", netip.AddrPortFrom(x.link.over.host(false), 0))
		if err != nil {
			return err
		}
		for _, s := range x.scenes {
			if err := x.a.do("dial", s.ep, x.link.mode, values[0], "plain"); err != nil {
				return err
			}
			if _, err := x.b.command("client", operationLimit.Milliseconds()); err != nil {
				return err
			}
			if err := x.b.do("accept", s.ep, x.link.mode); err != nil {
				return err
			}
		}
	} else {
		a, err := x.a.address()
		if err != nil {
			return err
		}
		b, err := x.b.address()
		if err != nil {
			return err
		}
		for _, s := range x.scenes {
			if err := x.a.do("connect", s.ep, x.link.mode, b); err != nil {
				return err
			}
			if err := x.b.do("connect", s.ep, x.link.mode, a); err != nil {
				return err
			}
		}
	}
	for _, s := range x.scenes {
		cross := expectedOver(s.ep, "contig", "contig", "sync")
		if err := cross(x.a, x.b, &x.msgs, 100); err != nil {
			return err
		}
		if err := cross(x.b, x.a, &x.msgs, 100); err != nil {
			return err
		}
	}
	if x.link.dial {
		return x.b.do("unlisten")
	}
	return nil
}

// hold stops a peer's progress until its next command.
func (x *act) hold(p *peer) func() error {
	return func() error {
		x.held = p
		return p.do("hold")
	}
}

// end makes the closer end its endpoint, worker, operation or process. A shutdown is answered
// later.
func (x *act) end() error {
	p := x.closer
	switch x.how {
	case "killed":
		p.kill()
		return nil
	case "worker":
		x.asked = []any{"retire"}
		x.retire(p)
	case "shutdown":
		x.asked = []any{"shutdown", 10 * operationLimit.Milliseconds()}
		x.retire(p)
	case "cancel":
		x.asked = []any{"cancel", x.scenes[0].request}
	default:
		s := x.scenes[0]
		s.closing, s.closes = p.request(), true
		x.asked = []any{"close", s.closing, s.ep, x.how}
	}
	if err := p.tell(x.asked...); err != nil {
		return err
	}
	x.untold = true
	if x.how != "shutdown" {
		return x.answered()
	}
	return nil
}

func (x *act) retire(p *peer) {
	x.retired[0] = x.retired[0] || p == x.a
	x.retired[1] = x.retired[1] || p == x.b
}

func (x *act) answered() error {
	values, err := x.closer.answer(x.asked...)
	x.untold = false
	x.ending = append([]string{}, values...)
	return err
}

// resume lets the held peer progress once.
func (x *act) resume() error {
	p := x.held
	if p == nil || p == x.closer {
		return nil // a command has resumed it
	}
	x.held = nil
	return p.do("progress", 1)
}

// receive posts the receive of b, if b still can.
func (x *act) receive() error {
	over := x.ending != nil || x.untold || x.how == "killed" && x.processEnded(x.b)
	closed := x.closer == x.b && over && x.how != "cancel"
	if x.retired[1] || closed && x.how == "killed" {
		return nil
	}
	return x.each(func(s *scene) error {
		op := s.cell.op
		if op.receive == nil || op.onEp && closed {
			return nil
		}
		s.posted = true
		return op.receive(s)
	})
}

func (x *act) processEnded(p *peer) bool {
	select {
	case <-p.process.ended:
		return true
	default:
		return false
	}
}

// finish waits until the operation has completed on both sides.
func (x *act) finish() error {
	return x.each(func(s *scene) error {
		for end := time.Now().Add(operationLimit); ; {
			_, ended, err := s.cell.op.seen(s)
			if err != nil {
				return err
			}
			if ended {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s: %w", s.cell, errTimeout)
			}
		}
		s.posted = false
		_, err := s.a.wait(s.request, s.m.seed)
		return err
	})
}

// tidy closes the workers, and removes the memory of the cells.
func (x *act) tidy() error {
	if x.untold {
		return fmt.Errorf("%s does not end", x.closer.name)
	}
	for i, p := range []*peer{x.a, x.b} {
		if !x.retired[i] {
			if err := p.do("retire"); err != nil {
				return err
			}
		}
		if err := p.do("forget"); err != nil {
			return err
		}
	}
	return x.each(func(s *scene) error {
		if !s.mapped {
			return nil
		}
		return x.b.do("unmap", s.ep)
	})
}
