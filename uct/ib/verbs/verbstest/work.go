//go:build linux

package verbstest

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// Work says when devices do what is asked of them.
type Work uint8

const (
	// InBell is in the call that rings the doorbell, and in all that may let go on what
	// waits: arming a completion queue, changing a queue pair, a link that comes up.
	InBell Work = iota
	// InStep is in Step and Progress only, so that sends stay outstanding until then.
	// The bell costs next to nothing then.
	InStep
	// behind is in a goroutine; see Run.
	behind
	// serving is in the call that rings, or in a goroutine; see Serve.
	serving
)

// SetWork changes when the devices of a network do their work. It must not be called
// while Run is in force.
func (n *Fabric) SetWork(w Work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setWork(w)
}

func (n *Fabric) setWork(w Work) {
	n.sched.work = w
	for _, k := range n.kernels {
		k.muffle()
	}
	if w == InBell {
		n.kick()
	}
}

// Progress tries everything again that waits, at all devices. If there was nothing to
// do, what is held on its way comes nearer, as if a message had come through.
func (n *Fabric) Progress() { n.Step(math.MaxInt) }

// Progress is Fabric.Progress of the device's network.
func (k *Kernel) Progress() { k.net.Progress() }

// Step has the queue pairs of a network do up to most work requests, in turns. What
// was lost on its way counts as one each time; what has to wait, for want of a receive
// or a peer, is tried once and does not count. It returns how many have come to an end.
func (n *Fabric) Step(most int) (done int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.step(most, nil)
}

// Step is Fabric.Step for what this device sends only.
func (k *Kernel) Step(most int) (done int) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return k.net.step(most, k)
}

// patience is how often a network looks by itself for what waits, while Run is in
// force.
const patience = 200 * time.Microsecond

// Run makes the devices work asynchronously, in a goroutine, as real ones do, until stop
// is called. It is for programs that sleep until a completion wakes them, or that poll
// without calling the network. Operations that wait for a receive or a peer are retried
// by time, and each try counts as one retry.
func (n *Fabric) Run() (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.sched.work
	wake, end, over := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	wake <- struct{}{} // what is there already
	n.sched.wake = wake
	n.setWork(behind)
	if n.polls() {
		go n.poll(end, over)
	} else {
		go n.serve(wake, end, over)
	}
	return sync.OnceFunc(func() {
		close(end)
		<-over
		n.SetWork(was)
	})
}

// serve does work when it is woken.
func (n *Fabric) serve(wake, end, over chan struct{}) {
	defer close(over)
	tick := time.NewTimer(patience)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-wake:
		case <-tick.C:
			tick.Reset(patience)
		}
		n.Progress()
	}
}

// poll looks for work all the time, and less often when it does not find any.
func (n *Fabric) poll(end, over chan struct{}) {
	defer close(over)
	last, idle := time.Now(), 0
	for {
		select {
		case <-end:
			return
		default:
		}
		switch {
		case n.answerBells():
			idle = 0
		case idle < eager:
			idle++
			runtime.Gosched()
		default:
			time.Sleep(pause)
		}
		if now := time.Now(); now.Sub(last) >= patience {
			last = now
			n.Progress()
		}
	}
}

// answerBells does what doorbells ask for that have rung since the last look. It does
// not try again what waits.
func (n *Fabric) answerBells() (any bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.kernels {
		any = k.listen() || any
	}
	if any {
		n.look()
		n.loop(math.MaxInt, nil)
	}
	return any
}
