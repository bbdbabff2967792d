//go:build linux

package host

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// A descriptor of a process (pidfd_open(2)) becomes readable when the process exits. The event
// set of a worker has one descriptor for each process that the worker's endpoints are connected
// to, however many endpoints there are. A worker therefore detects an exit at once, even if it
// sleeps, and the watch costs an idle worker nothing.
//
// There may be no descriptor for a process: the kernel is older than 5.3, a seccomp filter
// blocks the call, or this process has few descriptors left. Then the watcher reports nothing,
// and the keepalive detects the exit (Process.Alive).

// ExitHandler is notified of the exit of a process.
type ExitHandler interface {
	// ProcessExited is called once, inside progress, after the watch has ended. It may end
	// other watches, and must not begin any.
	ProcessExited(p Process)
}

// Inbox is a receive queue, such as a shared ring, whose messages do not identify the sending
// process. The watcher reports an exit only after the inboxes have received the messages that
// the process sent before it exited.
type Inbox interface {
	// MarkExit is called when a process has exited: all its messages have arrived in the inbox
	// by then. From then on, the inbox calls Watcher.Settle from time to time until Settle has
	// reported the exit.
	MarkExit()

	// PastMark reports whether all messages that had arrived at the last MarkExit are received.
	PastMark() bool
}

// Watcher reports the exits of processes. It belongs to a uct.Worker; only the goroutine of the
// worker may use it.
type Watcher struct {
	worker  *uct.Worker
	users   int // number of interfaces that use the watcher; guarded by watchers
	procs   map[Process]*watched
	inboxes []Inbox
	exited  []*watched    // exits that are not reported yet
	waiting bool          // Settle has been called for the first of these exits
	since   time.Duration // time of that call
}

// SettleTime is the maximum time that the report of an exit waits for the messages of the process,
// from the first Settle on: exits are recorded between rounds of progress too, where the worker's
// clock does not advance. A message of another sender can block the queue before them: a ring
// element that a stopped sender has claimed.
const SettleTime = 50 * time.Millisecond

// watchers holds the watchers of the workers of this process.
var watchers struct {
	sync.Mutex
	byWorker map[*uct.Worker]*Watcher
}

// OpenWatcher returns the watcher of a worker. The caller must call Close.
func OpenWatcher(w *uct.Worker) *Watcher {
	watchers.Lock()
	defer watchers.Unlock()
	x := watchers.byWorker[w]
	if x == nil {
		x = &Watcher{worker: w, procs: make(map[Process]*watched)}
		if watchers.byWorker == nil {
			watchers.byWorker = make(map[*uct.Worker]*Watcher)
		}
		watchers.byWorker[w] = x
	}
	x.users++
	return x
}

// Close releases the watcher. It is called once for each OpenWatcher, when the caller's watches
// have ended.
func (x *Watcher) Close() {
	watchers.Lock()
	defer watchers.Unlock()
	if x.users--; x.users == 0 {
		delete(watchers.byWorker, x.worker)
	}
}

// Watch is a registration for the exit of one process. The zero value watches nothing.
type Watch struct {
	prev, next *Watch
	of         *watched
	to         ExitHandler
}

// watched is a process with at least one Watch.
type watched struct {
	x      *Watcher
	proc   Process
	fd     int  // -1: the kernel does not report the exit
	exited bool // the exit is recorded
	first  *Watch
}

// Begin starts a watch that is not in use: h is notified when p exits. Begin ignores the
// calling process. If p has exited already, Begin records that, as RecordExit does.
func (x *Watcher) Begin(w *Watch, p Process, h ExitHandler) {
	if p.PID == os.Getpid() {
		return
	}
	t := x.procs[p]
	if t == nil {
		t = &watched{x: x, proc: p, fd: -1}
		x.procs[p] = t
		t.open()
	}
	w.of, w.to, w.prev, w.next = t, h, nil, t.first
	if t.first != nil {
		t.first.prev = w
	}
	t.first = w
}

// End ends a watch. It does nothing for a watch that has ended or never begun.
func (x *Watcher) End(w *Watch) {
	t := w.of
	if t == nil {
		return
	}
	t.unlink(w)
	if t.first == nil {
		t.close()
		delete(x.procs, t.proc)
	}
}

func (t *watched) unlink(w *Watch) {
	if w.prev == nil {
		t.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	*w = Watch{}
}

// open opens a descriptor of the process and adds it to the event set. It records the exit of a
// process that has exited.
func (t *watched) open() {
	fd, exited := openProcess(t.proc)
	if fd < 0 {
		if exited || !t.proc.Alive() {
			t.recordExit()
		}
		return
	}
	if err := t.x.worker.Events().Add(fd, event.Read, t); err != nil {
		closeProcess(fd)
		return
	}
	t.fd = fd
}

// close closes the descriptor.
func (t *watched) close() {
	if t.fd >= 0 {
		_ = t.x.worker.Events().Remove(t.fd) // fails if the set is closed
		closeProcess(t.fd)
		t.fd = -1
	}
}

// HandleEvent implements event.Handler. The process has exited.
func (t *watched) HandleEvent(event.Events) {
	t.close()
	t.recordExit()
	t.x.Settle()
}

// recordExit records the exit of the process until Settle reports it. A second call does nothing:
// all messages of the process had arrived at the first.
func (t *watched) recordExit() {
	if t.exited {
		return
	}
	x := t.x
	t.exited = true
	x.exited = append(x.exited, t)
	for _, in := range x.inboxes {
		in.MarkExit()
	}
}

// Settle reports the recorded exits, once the messages of these processes are received or
// SettleTime has passed. It returns whether it has called a handler. It is called inside progress.
func (x *Watcher) Settle() (changed bool) {
	if len(x.exited) == 0 {
		return false
	}
	now := x.worker.Now()
	if !x.waiting {
		x.waiting, x.since = true, now
	}
	for _, in := range x.inboxes {
		if !in.PastMark() && now-x.since < SettleTime {
			return false
		}
	}
	list := x.exited
	x.exited, x.waiting = nil, false
	for _, t := range list {
		if x.procs[t.proc] == t {
			delete(x.procs, t.proc)
		}
		for w := t.first; w != nil; w = t.first {
			h := w.to
			t.unlink(w)
			h.ProcessExited(t.proc)
			changed = true
		}
	}
	return changed
}

// Unsettled reports whether there are exits that Settle has not reported yet.
func (x *Watcher) Unsettled() bool { return len(x.exited) > 0 }

// AddInbox makes Settle wait for the messages in an inbox.
func (x *Watcher) AddInbox(in Inbox) { x.inboxes = append(x.inboxes, in) }

// RemoveInbox undoes AddInbox.
func (x *Watcher) RemoveInbox(in Inbox) {
	for k := range x.inboxes {
		if x.inboxes[k] == in {
			x.inboxes = append(x.inboxes[:k], x.inboxes[k+1:]...)
			return
		}
	}
}

// Release closes the descriptors of up to n processes and returns the number closed. From then
// on only the keepalive checks these processes.
func (x *Watcher) Release(n int) (released int) {
	for _, t := range x.procs {
		if released == n {
			break
		}
		if t.fd >= 0 {
			t.close()
			warnShortage()
			released++
		}
	}
	return released
}

// HasDescriptor reports whether the kernel reports the exit through a descriptor.
func (w *Watch) HasDescriptor() bool { return w.of != nil && w.of.fd >= 0 }

// RecordExit records an exit that HasExited has detected. Settle reports the exit to all watches of
// the process, in one of the worker's next rounds of progress.
func (x *Watcher) RecordExit(w *Watch) {
	if t := w.of; t != nil {
		t.close()
		t.recordExit()
	}
}

// HasExited asks the kernel whether the process of a watch has exited, for callers that do not
// progress the worker. It makes one system call, or three if there is no descriptor. For a
// watch that has not begun it returns false.
func (w *Watch) HasExited() bool {
	t := w.of
	if t == nil {
		return false
	}
	if t.fd < 0 {
		return !t.proc.Alive()
	}
	fds := [1]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n > 0
}
