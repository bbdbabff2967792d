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

// The kernel tells of the exit of a process whoever holds a descriptor of it
// (pidfd_open(2)): the descriptor becomes readable. A worker has one for each process
// that endpoints of it lead to, however many these are, in its event set. So an exit
// is noticed at once, also by a worker that sleeps, and a worker that is idle does
// nothing for it.
//
// Where the kernel refuses a descriptor, because it is older than 5.3, a filter does
// not let the call through, or the process has few descriptors left, nothing is said
// and the keepalive finds out (Process.Alive).

// ExitHandler is who wants to know of an exit.
type ExitHandler interface {
	// ProcessExited is called once, inside progress, and the watch is over. It may
	// end other watches and begin none.
	ProcessExited(p Process)
}

// Inbox is where a worker receives what processes send that do not say who they are.
// What a process sent before it exited is received before anybody is told of the exit.
type Inbox interface {
	// MarkExit is called when a process has exited: everything that it sent is there.
	// Inbox calls Watcher.Settle now and then until that has told.
	MarkExit()

	// PastMark reports whether everything has been received that was there at the
	// last MarkExit.
	PastMark() bool
}

// Watcher tells of the exits of processes. It belongs to a uct.Worker, and to the
// goroutine of that.
type Watcher struct {
	worker  *uct.Worker
	users   int // interfaces; guarded by watchers
	procs   map[Process]*watched
	inboxes []Inbox
	exited  []*watched // that nobody has been told of
	since   time.Duration
}

// SettleTime is for how long the messages of a process that has exited are waited
// for: others can stand in the way (an element that a stopped sender has claimed).
const SettleTime = 50 * time.Millisecond

// watchers are those of the workers of this process.
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

// Close is called by each who opened it. Their watches have ended.
func (x *Watcher) Close() {
	watchers.Lock()
	defer watchers.Unlock()
	if x.users--; x.users == 0 {
		delete(watchers.byWorker, x.worker)
	}
}

// Watch is what somebody wants to know about one process. The zero value is that of
// nobody.
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

// Begin tells h of the exit of a process, by a watch that is in no use. Of the own
// process nobody is told. A process that has exited already is told of in the next
// round of progress.
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

// open asks the kernel to tell of the process.
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

// close gives the descriptor back.
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

// note remembers that a process has exited, until those who want to know are told.
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

// Settle tells of the processes that have exited, if what they sent has been received,
// and returns whether it has told of any.
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

// Unsettled reports whether there are processes that Settle has still to tell of.
func (x *Watcher) Unsettled() bool { return len(x.exited) > 0 }

// AddInbox has an inbox looked at before anybody is told of an exit.
func (x *Watcher) AddInbox(in Inbox) { x.inboxes = append(x.inboxes, in) }

// RemoveInbox ends that.
func (x *Watcher) RemoveInbox(in Inbox) {
	for k := range x.inboxes {
		if x.inboxes[k] == in {
			x.inboxes = append(x.inboxes[:k], x.inboxes[k+1:]...)
			return
		}
	}
}

// Release gives back descriptors of up to n processes, for which the keepalive looks
// then, and returns how many it was.
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

// Told reports whether the kernel tells of the exit.
func (w *Watch) Told() bool { return w.of != nil && w.of.fd >= 0 }

// Found is told that HasExited was true: the worker's next round of progress tells
// everybody.
func (x *Watcher) Found(w *Watch) {
	if t := w.of; t != nil {
		t.close()
		t.note()
	}
}

// HasExited asks the kernel about the process of a watch, for who does not progress. That
// is one system call, or three where there is no descriptor. Without a watch the answer is
// no.
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
