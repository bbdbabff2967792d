//go:build linux

package ucptest

import (
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var signalCases = []testCase{
	{"signal", anywhere, testSignal},
	{"many signals collapse", anywhere, testSignalsCollapse},
	{"signal from any goroutine", anywhere, testSignalAnywhere},
	{"signal lets wait return", anywhere, testSignalWait},
	{"an external descriptor", anywhere, testExternalFD},
	{"an external descriptor in edge mode", anywhere, testExternalEdge},
}

// testSignal checks that Signal makes the descriptor readable, that the next Arm returns busy and
// consumes the signal, and that the Arm after it succeeds.
func testSignal(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	for _, armed := range []bool{false, true} {
		a.arm()
		if !armed {
			a.Progress()
		}
		if err := a.Signal(); err != nil {
			t.Fatal(err)
		}
		if !readable(t, a.fd, longEnough) {
			t.Error("the descriptor is not readable")
		}
		if err := a.Arm(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("first arm: %v", err)
		}
		if err := a.Arm(); err != nil {
			t.Errorf("second arm: %v", err)
		}
		if readable(t, a.fd, 0) {
			t.Error("the descriptor is still readable")
		}
	}
	// Progress consumes the readiness, not the signal.
	a.Signal()
	for a.Progress() > 0 {
	}
	if err := a.Arm(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("arm after signal and progress: %v", err)
	}
	if err := a.Arm(); err != nil {
		t.Errorf("second arm: %v", err)
	}
}

func testSignalsCollapse(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	a.arm()
	for range 1000 {
		if err := a.Signal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Arm(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("first arm: %v", err)
	}
	if err := a.Arm(); err != nil {
		t.Errorf("second arm: %v", err)
	}
}

// testSignalAnywhere checks that Signal may be called on every goroutine while the worker is in
// use, and after its close.
func testSignalAnywhere(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	there, _ := loop(r, a)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 1000 {
				a.Signal()
			}
		}()
	}
	for i := range 20 {
		r.sendAndTake(there, a, 1, message(i))
		a.Arm()
	}
	wg.Wait()
	a.close()
	if err := a.Signal(); err == nil {
		t.Error("signal of a closed worker succeeded")
	}
}

func testSignalWait(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	for range 20 {
		a.arm()
		go a.Signal()
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for a.Progress() > 0 {
		}
		if tr.mode == ucs.ThreadModeMulti {
			continue // other goroutines may have to be woken, too
		}
		if err := a.Arm(); err != nil {
			t.Fatalf("a signal that has ended a wait is there still: %v", err)
		}
	}
}

// epoll returns an epoll set of the application.
func epoll(t testing.TB) int {
	t.Helper()
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(set) })
	return set
}

// epollWait returns the user data of the ready descriptors.
func epollWait(t testing.TB, set, ms int) []uint64 {
	t.Helper()
	var ev [4]unix.EpollEvent
	n, err := unix.EpollWait(set, ev[:], ms)
	for err == unix.EINTR {
		n, err = unix.EpollWait(set, ev[:], ms)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []uint64
	for _, e := range ev[:n] {
		list = append(list, uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32)
	}
	return list
}

const userData = 0xDEAD_BEEF_8000_0001

// testExternalFD checks that the worker adds itself to the application's own set, with its user
// data, and removes itself when it is closed.
func testExternalFD(t *testing.T, tr transport) {
	r := newRig(t, tr)
	set := epoll(t)
	a := r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Epoll: &ucp.EpollTarget{FD: set, Data: userData}})
	if fd, err := a.EventFD(); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("EventFD: %d, %v", fd, err)
	}
	a.arm()
	if got := epollWait(t, set, 0); len(got) != 0 {
		t.Errorf("an idle worker is ready: %#x", got)
	}
	a.Signal()
	if got := epollWait(t, set, longEnough); len(got) != 1 || got[0] != userData {
		t.Errorf("after a signal: %#x", got)
	}
	a.arm()
	if got := epollWait(t, set, 0); len(got) != 0 {
		t.Errorf("after arm: %#x", got)
	}
	if !tr.loopback {
		b := r.open()
		ep := b.connect(a)
		r.warm(ep, a)
		a.arm()
		sreq, err := ep.TagSend(1, message(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.alone(sreq)
		if got := epollWait(t, set, longEnough); len(got) != 1 || got[0] != userData {
			t.Errorf("after a message: %#x", got)
		}
		r.arrived(a, 1)
		r.must(sreq, nil)
	}
	a.Signal()
	a.close()
	if got := epollWait(t, set, 0); len(got) != 0 {
		t.Errorf("a closed worker is ready: %#x", got)
	}
	if _, err := r.open().ctx.NewWorker(ucp.WorkerParams{Epoll: &ucp.EpollTarget{FD: -1}}); err == nil {
		t.Error("a worker was made with a bad descriptor")
	}
}

// testExternalEdge checks that in edge mode an event is reported once, and a new event again.
func testExternalEdge(t *testing.T, tr transport) {
	r := newRig(t, tr)
	for _, p := range []ucp.WorkerParams{
		{Epoll: &ucp.EpollTarget{Data: userData, Edge: true}},
		{Epoll: &ucp.EpollTarget{Data: userData}, Events: ucp.WakeupRX | ucp.WakeupEdge},
	} {
		set := epoll(t)
		p.Epoll.FD = set
		a := r.openWith(ucp.ContextParams{Features: features}, p)
		a.arm()
		for range 3 {
			a.Signal()
			if got := epollWait(t, set, longEnough); len(got) != 1 || got[0] != userData {
				t.Fatalf("after a signal: %#x", got)
			}
			if got := epollWait(t, set, 0); len(got) != 0 {
				t.Errorf("an old event is told again: %#x", got)
			}
		}
	}
}
