//go:build linux

package host

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// relative records the exits that are reported to it.
type relative struct {
	watch Watch
	told  []Process
	then  func()
}

func (r *relative) ProcessExited(p Process) {
	r.told = append(r.told, p)
	if r.then != nil {
		r.then()
	}
}

// mailbox is an Inbox that counts its marks.
type mailbox struct {
	marks int
	full  bool
}

func (m *mailbox) MarkExit()      { m.marks++ }
func (m *mailbox) PastMark() bool { return !m.full }

func newWatcher(t *testing.T) (*uct.Worker, *Watcher) {
	t.Helper()
	ucttest.NoLeaks(t)
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	x := OpenWatcher(w)
	t.Cleanup(func() {
		if n := descriptors.Load(); n != 0 {
			t.Errorf("%d descriptors of processes are left", n)
		}
		x.Close()
		if len(watchers.byWorker) != 0 {
			t.Error("a watcher is left")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, x
}

// running returns a running process, and a function that kills it and waits for its exit.
func running(t *testing.T) (p Process, kill func()) {
	t.Helper()
	cmd := child(t)
	p, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p, func() { killed(t, cmd) }
}

// killed kills a process and waits for its exit, without reaping.
func killed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// TestWatcher: an exit is reported once to each watch of the process, with one descriptor for all.
// A watch that has ended gets no report, and nothing is left behind.
func TestWatcher(t *testing.T) {
	w, x := newWatcher(t)
	if OpenWatcher(w) != x {
		t.Error("a worker has two watchers")
	}
	x.Close()
	p, kill := running(t)
	other, _ := running(t)
	var a, b, c, gone, still relative
	for _, r := range []*relative{&a, &b, &gone, &c} {
		x.Begin(&r.watch, p, r)
	}
	x.Begin(&still.watch, other, &still)
	if n := descriptors.Load(); n != 2 {
		t.Errorf("%d descriptors for two processes", n)
	}
	if !a.watch.HasDescriptor() || a.watch.HasExited() {
		t.Error("a running process has exited")
	}
	x.End(&gone.watch)
	x.End(&gone.watch)
	b.then = func() { x.End(&a.watch) } // a report may end another watch
	w.Events().Poll()
	kill()
	if !a.watch.HasExited() {
		t.Error("the process has not exited")
	}
	if n := w.Events().Poll(); n != 1 {
		t.Errorf("%d events", n)
	}
	for _, r := range []*relative{&b, &c} {
		if len(r.told) != 1 || r.told[0] != p {
			t.Errorf("told %v", r.told)
		}
	}
	if len(a.told)+len(gone.told)+len(still.told) != 0 || x.Unsettled() || a.watch.HasExited() {
		t.Error("somebody was told whose watch had ended, or of another process")
	}
	if n := w.Events().Poll(); n != 0 {
		t.Errorf("%d events afterwards", n)
	}
	x.End(&a.watch)
	x.End(&still.watch)
}

// TestWatcherSettles: an exit is reported after the messages of the process were received, but not
// delayed for ever.
func TestWatcherSettles(t *testing.T) {
	w, x := newWatcher(t)
	p, kill := running(t)
	in := &mailbox{full: true}
	x.AddInbox(in)
	var r relative
	x.Begin(&r.watch, p, &r)
	kill()
	w.Events().Poll()
	if x.Settle() || len(r.told) > 0 || !x.Unsettled() || in.marks != 1 {
		t.Error("told before the inbox was empty")
	}
	in.full = false
	if !x.Settle() || len(r.told) != 1 || x.Unsettled() || x.Settle() {
		t.Errorf("told %v", r.told)
	}
	q, kill := running(t)
	x.Begin(&r.watch, q, &r)
	in.full = true
	kill()
	for len(r.told) < 2 {
		w.Progress()
		x.Settle()
	}
	x.RemoveInbox(in)
}

// TestWatchOfTheGone: the exit of a process that has ended already, or whose process id another one
// has, is reported without an event. That of the own process never is.
func TestWatchOfTheGone(t *testing.T) {
	_, x := newWatcher(t)
	p, kill := running(t)
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	var old, own, dead relative
	x.Begin(&own.watch, self, &own)
	x.Begin(&old.watch, Process{PID: p.PID, Start: p.Start + 1}, &old)
	kill()
	x.Begin(&dead.watch, p, &dead)
	x.Settle()
	if len(old.told) != 1 || len(dead.told) != 1 || len(own.told) != 0 {
		t.Errorf("told %d, %d and %d times", len(old.told), len(dead.told), len(own.told))
	}
}

// TestWatchWithoutDescriptor: if descriptors are short, a process is not watched, but can be
// queried.
func TestWatchWithoutDescriptor(t *testing.T) {
	_, x := newWatcher(t)
	p, kill := running(t)
	var r relative
	x.Begin(&r.watch, p, &r)
	if x.Release(5) != 1 || x.Release(5) != 0 {
		t.Error("one descriptor gives way")
	}
	x.End(&r.watch)

	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	low := was
	low.Cur = 3 // leaves none for watching processes
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Skipf("missing: the right to lower the limit of descriptors: %v", err)
	}
	x.Begin(&r.watch, p, &r)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if r.watch.HasDescriptor() || r.watch.HasExited() {
		t.Error("watched beyond the limit")
	}
	kill()
	if !r.watch.HasExited() {
		t.Error("the process has exited")
	}
	x.RecordExit(&r.watch)
	if !x.Settle() || len(r.told) != 1 {
		t.Errorf("told %d times", len(r.told))
	}
	// A process that has exited before is told of all the same.
	descriptors.Add(1 << 30)
	x.Begin(&r.watch, p, &r)
	descriptors.Add(-1 << 30)
	if !x.Settle() || len(r.told) != 2 {
		t.Errorf("told %d times", len(r.told))
	}
}

// TestExitBetweenRounds: an exit that is found long after the last round of progress is recorded
// once, and told behind what the process has sent.
func TestExitBetweenRounds(t *testing.T) {
	w, x := newWatcher(t)
	p, kill := running(t)
	in := &mailbox{full: true}
	x.AddInbox(in)
	var a, b relative
	x.Begin(&a.watch, p, &a)
	x.Begin(&b.watch, p, &b)
	w.Progress()
	w.Now() // the clock of this round
	kill()
	for start := time.Now(); time.Since(start) <= SettleTime; {
	}
	for _, r := range []*relative{&a, &b, &a} {
		if !r.watch.HasExited() {
			t.Error("the process has not exited")
		}
		x.RecordExit(&r.watch)
	}
	if in.marks != 1 || len(x.exited) != 1 {
		t.Errorf("%d marks for %d exits", in.marks, len(x.exited))
	}
	w.Progress()
	if x.Settle() || len(a.told) > 0 {
		t.Error("told before the inbox was empty")
	}
	in.full = false
	w.Progress()
	if !x.Settle() || len(a.told) != 1 || len(b.told) != 1 || x.Unsettled() {
		t.Errorf("told %d and %d times", len(a.told), len(b.told))
	}
	x.RemoveInbox(in)
}
