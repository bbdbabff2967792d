package uct

import (
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
)

// Progressor is an object that a Worker progresses: an Iface, or a service that several
// ifaces share.
type Progressor interface {
	// Progress does what can be done now and returns the number of events handled. It may
	// register progressors, which are called from the next round on, and unregister them,
	// after which they are not called any more.
	Progress() int
}

// Armer is a Progressor that takes part in waiting. Arm returns nil if the event set will
// report every later event, and ucs.ErrBusy if Progress must be called first.
type Armer interface {
	Arm() error
}

// EventArmer is an Armer that can leave events out. ArmFor is Arm for some events: the
// event set need not report the others. Progress still finds what they announce.
type EventArmer interface {
	Armer
	ArmFor(events EventFlags) error
}

// Pusher is a Progressor that collects sends until the next round. Push sends them now,
// because no round may follow for a while.
type Pusher interface {
	Progressor
	Push()
}

// Worker is a progress engine: a list of progressors and one event set that ifaces share.
// It belongs to one goroutine at a time; the layer above ensures that.
type Worker struct {
	set        *event.Set
	timers     *event.Timers
	clock      event.Clock
	progress   []Progressor
	pushers    []Pusher // among those
	services   map[string]Service
	inProgress bool
	ragged     bool // somebody in progress is gone
	mustPoll   bool // somebody may have slept on the event set since the last poll
	epoch      uint64
	polled     uint64        // round of the last poll
	nextLook   uint64        // round in which to see whether to poll unasked
	nextPoll   uint64        // round of the next poll that nobody asked for
	pollGap    uint64        // rounds between these
	polledAt   time.Duration // time of the last such poll
	lookedIn   uint64        // round of the last look, and
	lookedAt   time.Duration // time of it
	vain       uint          // polls in a row that found nothing
	restBy     time.Duration // end of the rest after the last of them
	log        *log.Logger
}

// Timers and rare events live in the event set, so it is polled once in a while
// although no progressor asked for it. The rounds between such polls grow as
// long as they find nothing: where all traffic goes through shared memory, system
// calls must not grow with messages. At 10 ns and more for an idle round the
// longest gap is some milliseconds. A look at the clock, every lookGap rounds or each
// millisecond by what the last ones took, finds out who progresses rarely, because he sleeps or
// computes in between, or posts where that takes long: for him it is polled each millisecond,
// or in each round if these come later, which costs little beside that.
const (
	minPollGap   = 256
	maxPollGap   = 1 << 18
	maxPollTime  = 20 * time.Millisecond
	lookGap      = 128
	rarely       = 100 * time.Microsecond // between rounds
	rarePollTime = time.Millisecond
)

// NewWorker creates a worker with an empty event set.
func NewWorker() (*Worker, error) {
	set, err := event.NewSet()
	if err != nil {
		return nil, err
	}
	return &Worker{
		set:      set,
		timers:   event.NewTimers(set),
		epoch:    1, // polled in none yet
		nextLook: lookGap,
		nextPoll: minPollGap,
		pollGap:  minPollGap,
	}, nil
}

// SetLogger makes the ifaces of the worker, and its other objects, log to l. It is called
// before they are opened. Without it, and for nil, they use the process's logger.
func (w *Worker) SetLogger(l *log.Logger) { w.log = l }

// Log returns the logger of the worker's objects; nil, as for no worker, is the process's
// logger.
func (w *Worker) Log() *log.Logger {
	if w == nil {
		return nil
	}
	return w.log
}

// Events returns the set shared by all ifaces of the worker. It is polled at most once a
// round, see PollEvents.
func (w *Worker) Events() *event.Set { return w.set }

// Timers returns the worker's timers, which run their functions inside Progress.
func (w *Worker) Timers() *event.Timers { return w.timers }

// EventFD returns a descriptor that is readable when progress may be made, once Arm has
// returned nil. It belongs to the worker. On systems other than Linux it is -1.
func (w *Worker) EventFD() int { return w.set.FD() }

// AddProgress adds p to the progressors that Progress calls.
func (w *Worker) AddProgress(p Progressor) {
	w.progress = append(w.progress, p)
	if p, ok := p.(Pusher); ok {
		w.pushers = append(w.pushers, p)
	}
}

// RemoveProgress removes p.
func (w *Worker) RemoveProgress(p Progressor) {
	w.pushers = slices.DeleteFunc(w.pushers, func(q Pusher) bool { return q == p })
	i := slices.Index(w.progress, p)
	if i < 0 {
		return
	}
	if w.inProgress { // the round counts on places
		w.progress[i] = gone{}
		w.ragged, w.nextLook = true, 0
		return
	}
	w.progress = slices.Delete(w.progress, i, i+1)
}

// gone stands for what was removed in this round.
type gone struct{}

func (gone) Progress() int { return 0 }

// Progress runs one round and returns the number of events handled. Called from
// inside a round it does nothing.
func (w *Worker) Progress() int {
	if w.inProgress {
		return 0
	}
	w.inProgress = true
	w.epoch++
	n := 0
	for i, end := 0, len(w.progress); i < end; i++ {
		n += w.progress[i].Progress()
	}
	if w.epoch >= w.nextLook {
		n += w.look()
	}
	w.inProgress = false
	return n
}

// look tidies up after a round, and polls the event set if nobody has done that
// for long.
//
//go:noinline
func (w *Worker) look() int {
	now := w.RoughNow()
	each := (now - w.lookedAt) / time.Duration(w.epoch-w.lookedIn)
	w.lookedIn, w.lookedAt = w.epoch, now
	if w.nextLook = w.epoch + lookGap; each > rarePollTime/lookGap {
		w.nextLook = w.epoch + uint64(max(rarePollTime/each, 1))
	}
	if w.ragged {
		w.ragged = false
		w.progress = slices.DeleteFunc(w.progress, func(p Progressor) bool { return p == gone{} })
	}
	longest := maxPollTime
	if each >= rarely {
		longest = rarePollTime
	}
	if w.polled == w.epoch || !w.mustPoll && w.epoch < w.nextPoll && now-w.polledAt < longest {
		return 0
	}
	n := w.PollEvents()
	w.pollGap = min(2*w.pollGap, maxPollGap)
	w.nextPoll = w.epoch + w.pollGap
	w.polledAt = now
	return n
}

// PollEvents polls the event set, once per round however often it is called, and returns
// the number of handlers run. A progressor whose work arrives through descriptors calls it;
// others need not.
func (w *Worker) PollEvents() int {
	if w.polled == w.epoch {
		return 0
	}
	w.polled, w.mustPoll = w.epoch, false
	n := w.set.Poll()
	w.vain++
	if n > 0 {
		w.vain = 0
		w.pollGap = minPollGap
		w.nextPoll = w.epoch + minPollGap
	}
	return n
}

// A worker to which nothing has happened for long polls less often than it is
// progressed: the system call costs more than all the rest of a round. For those who
// wait busily an event comes later by the rest at most, which is little beside what
// brings it. Who progresses less often than that polls each time.
const (
	patience = 1024 // polls in vain; more than a wait makes that is to end in a sleep
	restTime = 2 * time.Microsecond
)

// AwaitEvents is PollEvents for a progressor that has no other source of work. In some
// rounds of an idle worker it does nothing.
func (w *Worker) AwaitEvents() int {
	if w.vain < patience || w.mustPoll {
		return w.PollEvents()
	}
	if w.Now() < w.restBy {
		return 0
	}
	n := w.PollEvents()
	w.restBy = w.clock.Again(w.epoch) + restTime // a poll may take longer than that
	return n
}

// Epoch counts progress rounds. Work that is done once a round compares it with the
// previous value.
func (w *Worker) Epoch() uint64 { return w.epoch }

// Now returns a coarse time: the time since the process started, read at the first call in
// a progress round, and again after a poll by AwaitEvents. Between rounds it does not
// advance.
func (w *Worker) Now() time.Duration { return w.clock.Now(w.epoch) }

// RoughNow is Now with a precision of some ten microseconds, for transports that need the
// time for each message: most calls take only a few instructions (event.Clock.Rough).
func (w *Worker) RoughNow() time.Duration { return w.clock.Rough(w.epoch) }

// Arm prepares for a wait on EventFD. It returns nil, or ucs.ErrBusy if there is something
// to progress.
func (w *Worker) Arm() error { return w.ArmFor(EventAny) }

// ArmFor is Arm for some of EventSendComp and EventRecv: transports that can tell them
// apart (EventArmer) do not wake for the other (uct_iface_event_arm). Timers, failures that
// the kernel reports and connection managers always wake.
func (w *Worker) ArmFor(events EventFlags) error {
	for _, p := range w.progress {
		var err error
		switch a := p.(type) {
		case EventArmer:
			err = a.ArmFor(events)
		case Armer:
			err = a.Arm()
		}
		if err != nil {
			return err
		}
	}
	w.mustPoll, w.nextLook = true, 0
	w.clock.Forget() // there may be a sleep now
	return nil
}

// Push sends what the progressors have collected.
func (w *Worker) Push() {
	for _, p := range w.pushers {
		p.Push()
	}
}

// Service is an object that ifaces of one transport share on a worker.
type Service interface {
	Progressor
	Close() error
}

// Service returns the worker's service of that name, made by open at the first call. It
// lives until the worker is closed.
func (w *Worker) Service(name string, open func() (Service, error)) (Service, error) {
	if s := w.services[name]; s != nil {
		return s, nil
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	if w.services == nil {
		w.services = make(map[string]Service)
	}
	w.services[name] = s
	w.AddProgress(s)
	return s, nil
}

// Close closes the services and the event set. The worker's ifaces must be
// closed.
func (w *Worker) Close() error {
	if w.set == nil {
		return ucs.ErrInvalidParam
	}
	var first error
	for name, s := range w.services {
		w.RemoveProgress(s)
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
		delete(w.services, name)
	}
	if err := w.timers.Close(); err != nil && first == nil {
		first = err
	}
	if err := w.set.Close(); err != nil && first == nil {
		first = err
	}
	w.set = nil
	return first
}
