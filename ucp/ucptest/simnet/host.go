//go:build simulate

package simnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// Host is a machine of the world.
type Host struct {
	w      *World
	number int
	addr   netip.Addr
	ways   []*Way // to each host, by number from 1; nil until they are used

	unplugged bool
	since     time.Duration // time at which it was unplugged
}

// NewHost adds a host.
func (w *World) NewHost() *Host {
	n := len(w.Net.hosts) + 1
	h := &Host{w: w, number: n, addr: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}
	w.Net.hosts = append(w.Net.hosts, h)
	return h
}

// Process is a process on a host.
type Process struct {
	w     *World
	host  *Host
	name  string
	place *sim.Place
	tasks []*task
	ended bool
	stirs uint64 // number of times that something has come for the process, or that progress has done something
	alarm *event // next time at which the network has something for the process
	wakes times  // further such times

	// Limits of what the process may use; 0 is no limit. Refuse, if set, decides about each request of
	// resources, by its number from 1 in the process: those for which it returns true fail as at a
	// limit.
	Limits Limits
	Refuse func(number uint64) bool
	used   Limits
	claims uint64

	forge func(id uct.AMID, data []byte) // changes what the process sends; nil: nothing

	frozen  bool
	stopped []*task  // tasks that can run when the process is not frozen any more
	delayed []*event // events that happen then
}

// NewProcess starts a process with a goroutine that runs main.
func (h *Host) NewProcess(main func(p *Process)) *Process {
	w := h.w
	n := len(w.processes) + 1
	p := &Process{w: w, host: h, name: fmt.Sprintf("p%d", n)}
	p.place = &sim.Place{IP: h.addr, Process: uct.Process(n), UID: 1000 + n}
	w.processes = append(w.processes, p)
	w.start(p, "main", func() { main(p) })
	return p
}

// Go starts another goroutine of the process.
func (p *Process) Go(name string, f func()) { p.w.start(p, name, f) }

// Ended reports whether the process has ended, or was killed.
func (p *Process) Ended() bool { return p.ended }

// Kill ends the process at once, as SIGKILL does. A process that is already over stays so. Half of the
// processes end in the middle of writing a message, if they have peers in shared memory.
func (p *Process) Kill() { p.kill(p.w.rng.IntN(2) == 0) }

// KillWriting is Kill in the middle of writing a message.
func (p *Process) KillWriting() { p.kill(true) }

func (p *Process) kill(midWrite bool) {
	if p.ended {
		return
	}
	p.ended = true
	w := p.w
	w.Count.Killed++
	w.Net.dies(p, midWrite)
	before, running := w.process, w.running
	w.process = p
	for _, t := range slices.Clone(p.tasks) {
		if t == running {
			continue // it ends when it waits next
		}
		w.running = t
		t.stop()
		w.running = running
		t.over = true
		if k := slices.Index(w.runnable, t); k >= 0 {
			w.runnable = slices.Delete(w.runnable, k, k+1)
		}
		if t.wakeup != nil {
			t.wakeup.process = p
		}
	}
	p.tasks, p.stopped, p.delayed = nil, nil, nil
	w.process = before
	platform.Forget(any(p))
}

// drop forgets a task that is over.
func (p *Process) drop(t *task) {
	p.tasks = slices.DeleteFunc(p.tasks, func(o *task) bool { return o == t })
}

// check makes the tasks runnable whose wait is over: all, or those that watch other processes.
func (p *Process) check(watches bool) {
	if p.ended {
		return
	}
	w := p.w
	w.process = p
	for _, t := range p.tasks {
		if t.ready != nil && (t.watches || !watches) && t.ready() {
			w.wake(t)
		}
	}
	w.process = nil
}

// Await is Poll for something that other processes do.
func (p *Process) Await(w *ucp.Worker, done func() bool) {
	t := p.w.running
	t.watches = true
	p.w.watching++
	defer func() {
		t.watches = false
		p.w.watching--
	}()
	p.Poll(w, done)
}

// Poll progresses a worker until done returns true. While there is nothing to do it waits for a
// message, a timer, or for another goroutine of the process.
func (p *Process) Poll(w *ucp.Worker, done func() bool) { p.poll(w, platform.Never, done) }

// poll is Poll that also looks at done at a time.
func (p *Process) poll(w *ucp.Worker, at time.Duration, done func() bool) {
	for idle := 0; !done(); {
		stirs := p.stirs
		if w.Progress() > 0 {
			p.stirs++
			idle = 0
			p.w.Yield()
			continue
		}
		until := at
		switch rest, ok := platform.Attached(w).(interface{ Next() (time.Duration, bool) }).Next(); {
		case ok && rest > 0:
			until = min(at, p.w.now+rest)
		case ok:
			// The event set is polled every few rounds only.
			if idle++; idle%128 != 0 {
				continue
			}
			until = min(at, p.w.now+10*time.Microsecond)
		}
		p.w.Park(func() bool { return p.stirs != stirs || done() }, until)
	}
}

// readable waits until the event descriptor of a worker would be readable, or until c ends.
func (p *Process) readable(w *ucp.Worker, c *condition) {
	set := platform.Attached(w).(interface{ Next() (time.Duration, bool) })
	for {
		rest, ok := set.Next()
		if ok && rest == 0 || c.Err() != nil {
			return
		}
		until := platform.Never
		if ok {
			until = p.w.now + rest
		}
		p.w.Park(func() bool {
			rest, ok := set.Next()
			return ok && p.w.now+rest < until || c.Err() != nil
		}, until)
	}
}

// Until waits until done returns true, because of what happens in the process. The caller is a goroutine
// of the process.
func (p *Process) Until(done func() bool) { p.w.Park(done, platform.Never) }

// Sleep waits for a time. The caller is a goroutine of the process.
func (p *Process) Sleep(d time.Duration) {
	p.w.Park(func() bool { return false }, p.w.now+d)
}

// Context returns a context that ends after a time of the world.
func (p *Process) Context(d time.Duration) (context.Context, context.CancelFunc) {
	return platform.WithTimeout(context.Background(), d)
}
