//go:build linux

package verbstest

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// Work selects when devices execute work requests.
type Work uint8

const (
	// InBell executes in the call that rings the doorbell, and in calls that may let waiting work
	// continue: arming a completion queue, changing a queue pair, bringing a link up.
	InBell Work = iota
	// InStep executes in Step and Progress only, so that sends stay outstanding until then. A
	// doorbell costs almost nothing in this mode.
	InStep
	// behind executes in a goroutine; see Run.
	behind
	// serving executes in the call that rings the doorbell, or in a goroutine; see Serve.
	serving
)

// SetWork changes when the devices of a network execute work requests. It panics while Run or Serve is
// in force, whose goroutine would go on executing them.
func (n *Fabric) SetWork(w Work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wantCalls("SetWork")
	n.setWork(w)
}

// wantCalls panics if a goroutine of Run or Serve executes the work requests.
func (n *Fabric) wantCalls(function string) {
	if n.sched.work == behind || n.sched.work == serving {
		panic("verbstest: " + function + " while Run or Serve is in force")
	}
}

func (n *Fabric) setWork(w Work) {
	n.sched.work = w
	for _, k := range n.kernels {
		k.updateQuiet()
	}
	if w == InBell {
		n.retryWaiting()
	}
}

// Progress retries all waiting work of all devices. If there was none, it advances the delay of
// held messages, as if a message had come through.
func (n *Fabric) Progress() { n.Step(math.MaxInt) }

// Progress is Fabric.Progress of the device's network.
func (k *Kernel) Progress() { k.net.Progress() }

// Step makes the queue pairs of a network execute up to most work requests, one of each queue pair
// in turn. Each retry of a message that was lost counts as one. A request that has to wait for a
// receive or a peer is tried once and does not count. Step returns how many requests have ended.
func (n *Fabric) Step(most int) (done int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.step(most, nil)
}

// Step is Fabric.Step for the sends of this device only.
func (k *Kernel) Step(most int) (done int) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return k.net.step(most, k)
}

// retryInterval is the interval at which a network retries waiting work while Run is in force.
const retryInterval = 200 * time.Microsecond

// Run makes the devices work asynchronously, in a goroutine, as real ones do, until stop
// is called. It is for programs that sleep until a completion wakes them, or that poll
// without calling the network. Operations that wait for a receive or a peer are retried
// by time, and each try counts as one retry. Run panics while Run or Serve is in force.
func (n *Fabric) Run() (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wantCalls("Run")
	was := n.sched.work
	wake, end, over := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	wake <- struct{}{} // work that is already there
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
		n.mu.Lock()
		defer n.mu.Unlock()
		n.setWork(was)
	})
}

// serve executes work requests when it is woken, and at intervals of retryInterval.
func (n *Fabric) serve(wake, end, over chan struct{}) {
	defer close(over)
	tick := time.NewTimer(retryInterval)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-wake:
		case <-tick.C:
			tick.Reset(retryInterval)
		}
		n.Progress()
	}
}

// poll polls for doorbells continuously, and less often when there are none. It retries waiting
// work at intervals of retryInterval.
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
		case n.executeDoorbells():
			idle = 0
		case idle < eager:
			idle++
			runtime.Gosched()
		default:
			time.Sleep(pause)
		}
		if now := time.Now(); now.Sub(last) >= retryInterval {
			last = now
			n.Progress()
		}
	}
}

// executeDoorbells executes the work requests of the doorbells that have rung since the last poll, and
// reports whether there were any. It does not retry waiting work.
func (n *Fabric) executeDoorbells() (any bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.kernels {
		any = k.pollDoorbells() || any
	}
	if any {
		n.look()
		n.loop(math.MaxInt, nil)
	}
	return any
}

// Polling of doorbells that programs ring by a store to memory, without a call.

// polls reports whether a device of the network has doorbells that must be polled for.
func (n *Fabric) polls() bool {
	for _, k := range n.kernels {
		if k.kind.polls() {
			return true
		}
	}
	return false
}

// pollDoorbells handles the doorbells that have rung, and reports whether there were any. It also flushes
// the receives of queue pairs in the error state, because no doorbell announces them.
func (k *Kernel) pollDoorbells() (any bool) {
	if !k.kind.polls() {
		return false
	}
	for _, f := range k.files {
		if f.drv.look() {
			any = true
		}
	}
	for _, q := range k.order {
		if q.attr.QpState == stateErr && q.rq != nil && q.rq.waiting() > 0 {
			q.flush()
		}
	}
	return any
}

// The constant eager is the number of polls without a sleep after a doorbell. The constant pause is
// the sleep between later polls.
const (
	pause = 20 * time.Microsecond
	eager = 200
)
