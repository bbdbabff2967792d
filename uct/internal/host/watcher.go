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

// A descriptor of a process (pidfd_open(2)) becomes readable when the process exits. The
// event set of a worker has one descriptor for each process that endpoints of the worker lead
// to, however many endpoints these are. So an exit is noticed at once, even by a worker that
// sleeps, and costs an idle worker nothing.
//
// The kernel may refuse a descriptor: it is older than 5.3, a filter blocks the call, or the
// process has few descriptors left. Then the watcher reports nothing, and the keepalive finds
// the exit (Process.Alive).

// ExitHandler is notified of an exit.
type ExitHandler interface {
	// ProcessExited is called once, inside progress, when the watch has ended. It may end
	// other watches, and must begin none.
	ProcessExited(p Process)
}

// Inbox receives messages whose sending process is not known, as a shared ring does. The
// messages that a process sent before it exited are received before its exit is reported.
type Inbox interface {
	// MarkExit is called when a process has exited: everything that it sent has arrived by
	// then. The inbox calls Watcher.Settle now and then until that has reported the exit.
	MarkExit()

	// PastMark reports whether everything that had arrived at the last MarkExit is
	// received.
	PastMark() bool
}

// Watcher reports the exits of processes. It belongs to a uct.Worker, and to the goroutine of
// the worker.
type Watcher struct {
	worker  *uct.Worker
	users   int // interfaces; guarded by watchers
	procs   map[Process]*watched
	inboxes []Inbox
	exited  []*watched // not reported yet
	since   time.Duration
}

// SettleTime is how long a report waits for the messages of a process that has exited: those
// of another sender can be in front of them (an element that a stopped sender has claimed).
const SettleTime = 50 * time.Millisecond

// watchers holds the watchers of the workers of this process.
var watchers struct {
	sync.Mutex
	byWorker map[*uct.Worker]*Watcher
}

// OpenWatcher returns the watcher of a worker. Close must follow.
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

// Close is called once for each OpenWatcher, when the caller's watches have ended.
func (x *Watcher) Close() {
	watchers.Lock()
	defer watchers.Unlock()
	if x.users--; x.users == 0 {
		delete(watchers.byWorker, x.worker)
	}
}

// Watch is an interest in the exit of one process. The zero value watches nothing.
type Watch struct {
	prev, next *Watch
	of         *watched
	to         ExitHandler
}

// watched is a process.
type watched struct {
	x     *Watcher
	proc  Process
	fd    int // -1: the kernel does not tell
	first *Watch
}

// Begin starts a watch that is not in use: h is notified of the exit of the process. The own
// process is not watched. An exit that lies in the past is reported in the next round of
// progress.
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

// End ends a watch. One that has ended or never begun is left alone.
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

// open opens a descriptor of the process, and adds it to the event set.
func (t *watched) open() {
	fd, exited := openProcess(t.proc)
	if exited {
		t.note()
	}
	if fd < 0 {
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
		_ = t.x.worker.Events().Remove(t.fd) // a set that is closed has none
		closeProcess(t.fd)
		t.fd = -1
	}
}

// HandleEvent implements event.Handler: the process has exited.
func (t *watched) HandleEvent(event.Events) {
	t.close()
	t.note()
	t.x.Settle()
}

// note records the exit of the process until Settle reports it.
func (t *watched) note() {
	x := t.x
	if len(x.exited) == 0 {
		x.since = x.worker.Now()
	}
	x.exited = append(x.exited, t)
	for _, in := range x.inboxes {
		in.MarkExit()
	}
}

// Settle reports the exits that were recorded once the messages of these processes are
// received. It returns whether it has called a handler.
func (x *Watcher) Settle() (told bool) {
	if len(x.exited) == 0 {
		return false
	}
	for _, in := range x.inboxes {
		if !in.PastMark() && x.worker.Now()-x.since < SettleTime {
			return false
		}
	}
	list := x.exited
	x.exited = nil
	for _, t := range list {
		if x.procs[t.proc] == t {
			delete(x.procs, t.proc)
		}
		for w := t.first; w != nil; w = t.first {
			h := w.to
			t.unlink(w)
			h.ProcessExited(t.proc)
			told = true
		}
	}
	return told
}

// Unsettled reports whether Settle has exits left to report.
func (x *Watcher) Unsettled() bool { return len(x.exited) > 0 }

// AddInbox makes reports of exits wait for the messages in an inbox.
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

// Release closes the descriptors of up to n processes, which only the keepalive checks from
// then on, and returns how many it has closed.
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

// Told reports whether the kernel reports the exit by a descriptor.
func (w *Watch) Told() bool { return w.of != nil && w.of.fd >= 0 }

// Found records an exit that HasExited has found: the next round of progress of the worker
// reports it to all watches of the process.
func (x *Watcher) Found(w *Watch) {
	if t := w.of; t != nil {
		t.close()
		t.note()
	}
}

// HasExited asks the kernel whether the process of a watch has exited, for callers that do not
// progress the worker. It takes one system call, or three if there is no descriptor. For a
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
