//go:build linux

package ucptest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// The rules of ucp_worker_get_efd, ucp_worker_arm, ucp_worker_wait and
// ucp_worker_signal.
var wakeupCases = []testCase{
	{"without the feature", anywhere, testNoWakeup},
	{"the descriptor", anywhere, testEventFD},
	{"a message after arm is seen", twoSides, testArmThenMessage},
	{"a message before arm is not lost", twoSides, testMessageThenArm},
	{"every message wakes", twoSides | everySwitch, testEveryMessageWakes},
	{"an answer to a sleeping sender wakes", twoSides | everySwitch, testSendWakes},
	{"events that are not asked for", twoSides, testWakeupMask},
	{"wait returns at once when busy", anywhere, testWaitPending},
	{"wait does not progress", twoSides, testWaitDoesNotProgress},
	{"wait ends with its context", anywhere, testWaitContext},
	{"two programs that sleep", twoSides | everySwitch, testSleepers},
}

// readable returns whether the kernel reports a descriptor as readable, after some milliseconds at
// most.
func readable(t testing.TB, fd, ms int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, ms)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n == 1 && fds[0].Revents&unix.POLLIN != 0
	}
}

// longEnough is the time in milliseconds after which a wait counts as failed.
const longEnough = 10_000

// arm progresses the worker until it can be armed.
func (s *side) arm() {
	s.rig.Helper()
	for range spinRounds * 10 {
		for s.Progress() > 0 {
		}
		err := s.Arm()
		if err == nil {
			return
		}
		if !errors.Is(err, ucs.ErrBusy) {
			s.rig.Fatal(err)
		}
	}
	s.rig.Fatal("the worker stays busy")
}

// alone progresses only this worker until its send is complete: the message was sent, and has not
// been received.
func (s *side) alone(req *ucp.Request) {
	s.rig.Helper()
	for range spinRounds {
		if req.Done() {
			return
		}
		s.Progress()
	}
	s.rig.Fatal("the send does not end")
}

// testNoWakeup checks that without FeatureWakeup the calls are refused, but waiting for requests
// works.
func testNoWakeup(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.openWith(ucp.ContextParams{Features: ucp.FeatureTag}, ucp.WorkerParams{})
	for what, call := range map[string]func() error{
		"EventFD": func() error { _, err := a.EventFD(); return err },
		"Arm":     a.Arm,
		"Wait":    func() error { return a.Wait(t.Context()) },
		"Signal":  a.Signal,
	} {
		if err := call(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", what, err)
		}
	}
	there, _ := loop(r, a)
	req := r.started(a.TagRecv(1, 0, make([]byte, 16), nil))
	if _, err := there.TagSend(1, message(1), nil); err != nil {
		t.Fatal(err)
	}
	if err := req.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// testEventFD checks that the descriptor is the same for every call.
func testEventFD(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	for range 3 {
		fd, err := a.EventFD()
		if err != nil || fd < 0 || fd != a.fd {
			t.Errorf("descriptor %d, %v; before it was %d", fd, err, a.fd)
		}
	}
	a.arm()
	if readable(t, a.fd, 0) {
		t.Error("the descriptor of an idle worker is readable")
	}
}

func testArmThenMessage(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	for i := range 20 {
		req := b.recvInto(1, 0, make([]byte, 16), nil)
		b.arm()
		sreq, err := ep.TagSend(1, message(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		a.alone(sreq)
		if !readable(t, b.fd, longEnough) {
			t.Fatalf("message %d did not make the descriptor readable", i)
		}
		r.must(req, nil)
		r.must(sreq, nil)
	}
}

// testWakeupMask checks that a worker that asks for the events of one direction is woken for these,
// and finds the results of the other direction when it progresses.
func testWakeupMask(t *testing.T, tr transport) {
	for name, events := range map[string]ucp.WakeupEvents{"sends": ucp.WakeupTX, "receives": ucp.WakeupRX} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tr)
			a, b := r.open(), r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Events: events})
			there, back := a.connect(b), b.connect(a)
			r.warm(there, b)
			r.warm(back, a)
			for i := range 10 {
				recv := b.recvInto(1, 0, make([]byte, 16), nil)
				b.arm()
				sent, err := there.TagSend(1, message(i), nil)
				if err != nil {
					t.Fatal(err)
				}
				a.alone(sent)
				if events == ucp.WakeupRX && !readable(t, b.fd, longEnough) {
					t.Fatalf("message %d did not make the descriptor readable", i)
				}
				r.must(recv, nil)
				r.must(sent, nil)

				answer := a.recvInto(2, 0, make([]byte, 16), nil)
				sync := r.started(back.TagSendSync(2, message(i), nil))
				for !sync.Done() {
					b.arm()
					if sync.Done() {
						break
					}
					for !answer.Done() && !readable(t, b.fd, 0) {
						a.Progress()
					}
					for rounds := 0; !readable(t, b.fd, 1); rounds++ { // not sent by the peer yet
						if a.Progress(); rounds == longEnough {
							t.Fatalf("the answer to message %d did not make the descriptor readable", i)
						}
					}
				}
				r.must(answer, nil)
				r.must(sync, nil)
			}
		})
	}
}

// TestWakeupUnasked checks that over shared memory a message does not wake a worker that asks for
// the events of sends alone and has none in flight. While a send is in flight the peer's answer
// wakes it.
func TestWakeupUnasked(t *testing.T) {
	r := newRig(t, byName(t, "posix"))
	a, b := r.open(), r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Events: ucp.WakeupTX})
	there := a.connect(b)
	r.warm(there, b)
	recv := b.recvInto(1, 0, make([]byte, 16), nil)
	b.arm()
	if readable(t, b.fd, 0) {
		b.arm() // after an earlier event
	}
	sent, err := there.TagSend(1, message(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.alone(sent)
	if readable(t, b.fd, 0) {
		t.Error("a message has made the descriptor readable")
	}
	r.must(sent, nil)
	r.must(recv, nil)

	back := b.connect(a)
	answer := a.recvInto(2, 0, make([]byte, 16), nil)
	sync := r.started(back.TagSendSync(2, message(2), nil))
	b.arm()
	a.alone(answer) // sends the acknowledgement, too
	if !readable(t, b.fd, 0) {
		t.Error("the end of a send has not made the descriptor readable")
	}
	r.must(answer, nil)
	r.must(sync, nil)
}

// testMessageThenArm checks that a message between the last progress and Arm makes Arm return busy,
// or the descriptor readable.
func testMessageThenArm(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	for i := range 20 {
		req := b.recvInto(1, 0, make([]byte, 16), nil)
		b.arm()
		r.must(ep.TagSend(1, message(i), nil)) // progresses b too
		r.until("the message", req.Done)
		req.Free()

		req = b.recvInto(1, 0, make([]byte, 16), nil)
		for b.Progress() > 0 {
		}
		sreq, err := ep.TagSend(1, message(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		a.alone(sreq)
		if err := b.Arm(); err == nil {
			if !readable(t, b.fd, longEnough) {
				t.Fatalf("message %d was lost", i)
			}
		} else if !errors.Is(err, ucs.ErrBusy) {
			t.Fatal(err)
		}
		r.must(req, nil)
		r.must(sreq, nil)
	}
}

// testEveryMessageWakes checks that a receiver that sleeps between all events gets every message,
// of every kind and size.
func testEveryMessageWakes(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for i, n := range []int{8, 0, 5000, 100_000, 1 << 20, 8} {
		buf := make([]byte, n)
		req := b.recvInto(1, 0, buf, nil)
		sreq, err := ep.TagSendSync(1, ucttest.Pattern(n, uint64(i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		asleep := 0
		for !req.Done() || !sreq.Done() {
			a.arm()
			b.arm()
			if req.Done() && sreq.Done() {
				break
			}
			// One of the workers must have an event.
			fds := []unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}, {Fd: int32(b.fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(fds, longEnough); err != unix.EINTR && (n == 0 || err != nil) {
				t.Fatalf("message %d: both sleep for ever: %d, %v", i, n, err)
			}
			if asleep++; asleep > 10_000 {
				t.Fatalf("message %d: woken for nothing all the time", i)
			}
		}
		ucttest.SameBytes(t, "message", buf, ucttest.Pattern(n, uint64(i)))
		req.Free()
		sreq.Free()
	}
}

// testSendWakes checks that the completion of a send makes the descriptor readable.
func testSendWakes(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	for _, n := range []int{0, 100_000} {
		req := r.started(ep.TagSendSync(1, make([]byte, n), nil))
		r.arrived(b, 1)
		r.settle()
		a.arm()
		if !r.silent && readable(t, a.fd, 0) { // silent transports have timers
			t.Fatal("readable without an event")
		}
		rreq, err := b.TagRecv(1, 0, make([]byte, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range spinRounds { // without progress of a
			b.Progress()
		}
		if !readable(t, a.fd, longEnough) {
			t.Fatal("the acknowledgement did not make the descriptor readable")
		}
		r.must(req, nil)
		r.must(rreq, nil)
	}
}

func testWaitPending(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	a.arm()
	a.Signal()
	if err := a.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// testWaitDoesNotProgress checks that Wait returns when there is something to do, and leaves it to
// Progress.
func testWaitDoesNotProgress(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	req := b.recvInto(1, 0, make([]byte, 16), nil)
	b.arm()
	sreq, err := ep.TagSend(1, message(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.alone(sreq)
	if err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if req.Done() {
		t.Error("Wait made progress")
	}
	r.must(req, nil)
	r.must(sreq, nil)
}

func testWaitContext(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	woken := 0
	for range 20 {
		a.arm()
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		err := a.Wait(ctx)
		if err == nil && woken == 0 { // one wakeup may be left from before
			woken++
			err = a.Wait(ctx)
		}
		if err != context.Canceled {
			t.Fatalf("wait: %v", err)
		}
	}
	// The earlier ends do not end this wait.
	a.Signal()
	if err := a.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// testSleepers: two goroutines, each with its worker, send messages of all sizes back and forth and
// sleep whenever they can.
func testSleepers(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	there, back := a.connect(b), b.connect(a)
	lengths := []int{8, 0, 5000, 100_000, 8, 8, 300_000}
	play := func(s *side, ep *ucp.Endpoint, first bool) error {
		for i, n := range lengths {
			buf := make([]byte, n)
			if first {
				if err := ep.TagSendWait(t.Context(), ucp.Tag(i), ucttest.Pattern(n, uint64(i))); err != nil {
					return err
				}
			}
			info, err := s.TagRecvWait(t.Context(), ucp.Tag(i), ucp.FullMask, buf)
			if err != nil {
				return err
			}
			if info.Length != n || string(buf) != string(ucttest.Pattern(n, uint64(i))) {
				return errors.New("wrong message")
			}
			if !first {
				if err := ep.TagSendWait(t.Context(), ucp.Tag(i), buf); err != nil {
					return err
				}
			}
		}
		return ep.Shutdown(t.Context())
	}
	// A side that is done continues to progress for the other side.
	ctx, cancel := context.WithCancel(t.Context())
	var playing, running sync.WaitGroup
	playing.Add(2)
	running.Add(3)
	for _, p := range []struct {
		s     *side
		ep    *ucp.Endpoint
		first bool
	}{{a, there, true}, {b, back, false}} {
		go func() {
			defer running.Done()
			if err := play(p.s, p.ep, p.first); err != nil {
				t.Error(err)
			}
			playing.Done()
			p.s.Run(ctx)
		}()
	}
	go func() {
		defer running.Done()
		playing.Wait()
		cancel()
	}()
	running.Wait()
}
