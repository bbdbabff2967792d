package uct

import (
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
)

// Progressor is an object that a Worker progresses: an Iface, or a service that several
// ifaces share.
type Progressor interface {
	// Progress does the work that can be done now and returns the number of events handled. It
	// may register progressors, which are called from the next round on, and unregister
	// progressors, which are not called any more.
	Progress() int

	// Arm prepares for a wait. It returns nil if the event set will report every later event
	// among the given events, and ucs.ErrBusy if Progress must be called first. The event set
	// may report the other events as well. Progress still handles the work that they announce.
	// A progressor that does not take part in waiting returns nil.
	Arm(events EventFlags) error
}

// Service is an object that ifaces of one transport share on a worker, such as one that
// progresses all of them.
type Service interface {
	Progressor

	// Push sends the messages that the service has collected for the next round, because no
	// round may follow for a while.
	Push()

	// Close releases the service. The ifaces have been closed before.
	Close() error
}

// Worker is a progress engine: a list of progressors and one event set that ifaces share.
// It belongs to one goroutine at a time; the layer above ensures that.
type Worker struct {
	set             *event.Set
	timers          *event.Timers
	clock           event.Clock
	progress        []Progressor
	services        []service // in the order in which they were opened
	inProgress      bool
	hasPlaceholders bool // progress contains placeholders of removed progressors
	mustPoll        bool // the worker was armed since the last poll, so a sleep may have ended
	epoch           uint64
	polled          uint64        // round of the last poll
	nextLook        uint64        // round of the next call of look
	nextPoll        uint64        // round of the next unsolicited poll
	pollGap         uint64        // rounds between unsolicited polls
	polledAt        time.Duration // time of the last unsolicited poll
	lookedIn        uint64        // round of the last call of look
	lookedAt        time.Duration // time of the last call of look
	emptyPolls      uint          // consecutive polls without an event
	nextIdlePoll    time.Duration // no idle poll before this time
	log             *log.Logger
}

// These constants control unsolicited polls. The event set reports timers and rare events, so
// the worker polls it from time to time even if no progressor asks for a poll. The number of
// rounds between these polls grows as long as the polls find no event: if all traffic goes
// through shared memory, the number of system calls must not grow with the number of messages.
// At 10 ns and more for an idle round, the longest gap is some milliseconds.
//
// The worker calls its method look every lookGap rounds, or about once a millisecond as estimated
// from the duration of the last rounds. It reads the clock to detect an application whose rounds
// are far apart, because the application sleeps or computes between rounds, or because its posts
// take long. The worker of that application polls once a millisecond, or in each round if rounds
// are further apart than that. The poll is cheap compared to these rounds.
const (
	minPollGap   = 256
	maxPollGap   = 1 << 18
	maxPollTime  = 20 * time.Millisecond
	lookGap      = 128
	longRound    = 100 * time.Microsecond // time between rounds from which rarePollTime applies
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
		epoch:    1, // differs from polled: no round has polled yet
		nextLook: lookGap,
		nextPoll: minPollGap,
		pollGap:  minPollGap,
	}, nil
}

// SetLogger makes the ifaces and other objects of the worker log to l. It is called before they
// are opened. Without SetLogger, or if l is nil, they use the process's logger.
func (w *Worker) SetLogger(l *log.Logger) { w.log = l }

// Log returns the logger of the worker's objects. nil, which a nil Worker also returns, is the
// process's logger.
func (w *Worker) Log() *log.Logger {
	if w == nil {
		return nil
	}
	return w.log
}

// Events returns the event set shared by all ifaces of the worker. It is polled at most once a
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
}

// RemoveProgress removes p from these progressors. It may be called inside Progress.
func (w *Worker) RemoveProgress(p Progressor) {
	i := slices.Index(w.progress, p)
	if i < 0 {
		return
	}
	if w.inProgress { // Progress iterates by index
		w.progress[i] = removedProgressor{}
		w.hasPlaceholders, w.nextLook = true, 0
		return
	}
	w.progress = slices.Delete(w.progress, i, i+1)
}

// removedProgressor is the placeholder of a progressor that was removed during a round.
type removedProgressor struct{}

func (removedProgressor) Progress() int        { return 0 }
func (removedProgressor) Arm(EventFlags) error { return nil }

// Progress runs one round and returns the number of events handled. A nested call does nothing.
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
	if platform.Simulated || w.epoch >= w.nextLook {
		n += w.look()
	}
	w.inProgress = false
	return n
}

// look runs after a round. It removes the placeholders of removed progressors, and polls the
// event set if the last poll was too long ago. In a simulation, where a poll is no system call, it
// does so after every round.
//
//go:noinline
func (w *Worker) look() int {
	now := w.RoughNow()
	each := (now - w.lookedAt) / time.Duration(w.epoch-w.lookedIn)
	w.lookedIn, w.lookedAt = w.epoch, now
	if w.nextLook = w.epoch + lookGap; each > rarePollTime/lookGap {
		w.nextLook = w.epoch + uint64(max(rarePollTime/each, 1))
	}
	if w.hasPlaceholders {
		w.hasPlaceholders = false
		w.progress = slices.DeleteFunc(w.progress, func(p Progressor) bool { return p == removedProgressor{} })
	}
	longest := maxPollTime
	if each >= longRound {
		longest = rarePollTime
	}
	if w.polled == w.epoch || !platform.Simulated && !w.mustPoll && w.epoch < w.nextPoll && now-w.polledAt < longest {
		return 0
	}
	n := w.PollEvents()
	w.pollGap = min(2*w.pollGap, maxPollGap)
	w.nextPoll = w.epoch + w.pollGap
	w.polledAt = now
	return n
}

// PollEvents polls the event set, at most once per round, and returns the number of handlers
// run. A progressor whose work arrives through descriptors calls it; other progressors need
// not.
func (w *Worker) PollEvents() int {
	if w.polled == w.epoch {
		return 0
	}
	w.polled, w.mustPoll = w.epoch, false
	n := w.set.Poll()
	w.emptyPolls++
	if n > 0 {
		w.emptyPolls = 0
		w.pollGap = minPollGap
		w.nextPoll = w.epoch + minPollGap
	}
	return n
}

// These constants control idle polls. A worker that has had no events for long does not poll in
// every round, because the system call costs more than the rest of a round. For an application
// that busy-waits, an event is delayed by at most restTime, which is short compared to the time
// that the kernel takes to deliver an event. If the rounds are further apart than restTime,
// each round polls.
const (
	emptyPollLimit = 1024 // empty polls; more than the polls of a wait that goes to sleep
	restTime       = 2 * time.Microsecond
)

// AwaitEvents is like PollEvents, for a progressor that has no other source of work. In some
// rounds of an idle worker it does nothing.
func (w *Worker) AwaitEvents() int {
	if w.emptyPolls < emptyPollLimit || w.mustPoll {
		return w.PollEvents()
	}
	if w.Now() < w.nextIdlePoll {
		return 0
	}
	n := w.PollEvents()
	w.nextIdlePoll = w.clock.Again(w.epoch) + restTime // read anew: a poll may take longer than restTime
	return n
}

// Epoch returns the number of the current progress round. Code that runs once a round compares
// it with the previous value.
func (w *Worker) Epoch() uint64 { return w.epoch }

// Now returns the time since the process started, with the resolution of a round: the clock is
// read at the first call in a progress round, and again after a poll by AwaitEvents. Between
// rounds Now does not advance.
func (w *Worker) Now() time.Duration { return w.clock.Now(w.epoch) }

// RoughNow is like Now, with a precision of some ten microseconds, for transports that need the
// time for each message: most calls take only a few instructions (event.Clock.Rough).
func (w *Worker) RoughNow() time.Duration { return w.clock.Rough(w.epoch) }

// Arm prepares for a wait on EventFD. It returns nil, or ucs.ErrBusy if Progress must be called
// first.
func (w *Worker) Arm() error { return w.ArmFor(EventAny) }

// ArmFor is like Arm, for one or both of EventSendComp and EventRecv: transports that can tell
// these events apart do not wake the worker for an event that was not requested
// (uct_iface_event_arm). Timers, failures that the kernel reports, and connection managers
// always wake the worker.
func (w *Worker) ArmFor(events EventFlags) error {
	for _, p := range w.progress {
		if err := p.Arm(events); err != nil {
			return err
		}
	}
	w.mustPoll, w.nextLook = true, 0
	w.clock.Forget() // the application may sleep now
	return nil
}

// Push makes the services send the messages that they have collected.
func (w *Worker) Push() {
	for i := range w.services {
		w.services[i].Push()
	}
}

// service is a service of a worker, with its name.
type service struct {
	Service
	name string
}

// Service returns the worker's service of that name, which open creates at the first call. The
// service lives until the worker is closed.
func (w *Worker) Service(name string, open func() (Service, error)) (Service, error) {
	for i := range w.services {
		if s := &w.services[i]; s.name == name {
			return s.Service, nil
		}
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	w.services = append(w.services, service{s, name})
	w.AddProgress(s)
	return s, nil
}

// Close closes the services and the event set. The worker's ifaces must be closed before.
func (w *Worker) Close() error {
	if w.set == nil {
		return ucs.ErrInvalidParam
	}
	var first error
	for i := range w.services {
		s := w.services[i].Service
		w.RemoveProgress(s)
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
	}
	w.services = nil
	if err := w.timers.Close(); err != nil && first == nil {
		first = err
	}
	if err := w.set.Close(); err != nil && first == nil {
		first = err
	}
	w.set = nil
	return first
}
