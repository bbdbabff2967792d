package uct

import (
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/cpu"
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

// Rester is a Progressor that knows when it has work: only after calls on its worker's goroutine.
type Rester interface {
	Progressor

	// Rest reports whether the progressor needs no round before it calls Worker.Rouse.
	Rest() bool
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
	rounder         Progressor   // what Round calls: sole, or wholeRound
	sole            Progressor   // progress[0] if no other progressor is called in any round, else nil
	progress        []Progressor // called in every round
	quiet           []Progressor // called now and then (visitQuiet)
	resting         []Progressor // not called before Rouse
	added           []Progressor // come to progress at the end of the round
	busy            uint64       // bit k&63 is set if progress[k] had an event since the last call of look
	uses            []use        // of the progressors in progress
	visits          int          // number of calls of quiet progressors
	visited         uint64       // the processor's counter at the last call of visitQuiet
	everyRound      bool         // no progressor becomes quiet
	services        []service    // in the order in which they were opened
	inProgress      bool
	hasPlaceholders bool // progress contains placeholders of removed progressors
	mustPoll        bool // the worker was armed since the last poll, so a sleep may have ended
	owesPoll        bool // mustPoll, and a round since then did not poll because it had other events
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
	w := &Worker{
		set:      set,
		timers:   event.NewTimers(set),
		epoch:    1, // differs from polled: no round has polled yet
		nextLook: lookGap,
		nextPoll: minPollGap,
		pollGap:  minPollGap,
	}
	w.rounder = wholeRound{w}
	return w, nil
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
	if w.inProgress { // Progress goes through the list
		w.added = append(w.added, p)
		w.nextLook = 0
		return
	}
	w.insert(p, false)
}

// insert appends p to progress. used is as in use.
func (w *Worker) insert(p Progressor, used bool) {
	if w.sole != nil && w.epoch > w.uses[0].since {
		w.uses[0] = use{w.epoch, true} // while it was the sole one, its events were not noted
	}
	w.progress = append(w.progress, p)
	w.uses = append(w.uses, use{w.epoch, used})
	w.findSole()
}

// use is what a worker knows of the use of a progressor.
type use struct {
	since uint64 // the round of the last call of look that has found events, or that in which it was added
	used  bool   // it has ever had an event
}

func (w *Worker) findSole() {
	w.sole, w.rounder = nil, wholeRound{w}
	if len(w.progress) == 1 && len(w.quiet) == 0 {
		w.sole = w.progress[0]
		if !platform.Simulated { // there every round calls look
			w.rounder = w.sole
		}
	}
}

// RemoveProgress removes p from these progressors. It may be called inside Progress.
func (w *Worker) RemoveProgress(p Progressor) {
	for _, list := range []*[]Progressor{&w.added, &w.progress, &w.quiet, &w.resting} {
		i := slices.Index(*list, p)
		switch {
		case i < 0:
			continue
		case w.inProgress && list != &w.added:
			(*list)[i] = removedProgressor{}
			w.hasPlaceholders, w.nextLook = true, 0
		case list == &w.progress:
			w.delete(i)
		default:
			*list = slices.Delete(*list, i, i+1)
		}
		w.findSole()
		return
	}
}

// delete takes progress[k] out of the list.
func (w *Worker) delete(k int) {
	w.progress = slices.Delete(w.progress, k, k+1)
	w.uses = slices.Delete(w.uses, k, k+1)
}

// Rouse makes a progressor take part in rounds again after its method Rest has returned true.
func (w *Worker) Rouse(p Rester) {
	w.RemoveProgress(p)
	w.AddProgress(p)
}

// SetAdaptive says whether progressors that had no event for long are called less often, which is the
// default (UCX_ADAPTIVE_PROGRESS). It is called before the first round.
func (w *Worker) SetAdaptive(on bool) { w.everyRound = !on }

// A progressor is quiet if it has never had an event in its first quietUnused rounds, or none in the last
// quietAfter rounds, unless it rests (Rester), or of all progressors it is the one that had an event last.
// Every quietGap-th round calls a quietShare-th of the quiet ones, until they have an event. So an event
// comes quietGap*quietShare rounds late at most. That may be long if the rounds are far apart: a round that
// begins more than restCounts of the processor's counter after the last one calls all.
const (
	quietUnused = 1 << 10
	quietAfter  = 1 << 16
	quietGap    = 4
	quietShare  = 4
)

// restCounts is about a microsecond; 0 where there is no counter.
var restCounts = cpu.Moment() / 16

// visitQuiet calls those of the quiet progressors whose turn it is, or all.
func (w *Worker) visitQuiet(all bool) (n int) {
	due := len(w.quiet)
	if !all {
		due = (due + quietShare - 1) / quietShare
	}
	for range due {
		w.visits++
		k := w.visits % len(w.quiet)
		got := w.quiet[k].Progress()
		if p := w.quiet[k]; got > 0 && p != (removedProgressor{}) {
			w.RemoveProgress(p)
			w.insert(p, true)
		}
		n += got
	}
	return n
}

// rank makes those progressors quiet that had no event for long, and lets those rest that can.
func (w *Worker) rank() {
	last := -1             // the one that had an event last, or the only one that does not rest
	others := len(w.quiet) // progressors that do not rest
	for k, p := range w.progress {
		if w.busy>>(k&63)&1 != 0 {
			w.uses[k] = use{w.epoch, true}
		}
		if _, rests := p.(Rester); rests {
			continue
		}
		if others++; others == 1 || w.uses[k].used && (last < 0 || w.uses[k].since > w.uses[last].since) {
			last = k
		}
	}
	if others > 1 && last >= 0 && !w.uses[last].used {
		last = -1
	}
	w.busy = 0
	if w.everyRound || platform.Simulated || restCounts == 0 || w.sole != nil {
		return
	}
	for k := len(w.progress) - 1; k >= 0; k-- {
		u, limit, list := w.uses[k], uint64(quietAfter), &w.quiet
		r, rests := w.progress[k].(Rester)
		if rests || !u.used {
			limit = quietUnused
		}
		if k == last || w.epoch-u.since <= limit {
			continue
		}
		if rests {
			if !r.Rest() {
				continue
			}
			list = &w.resting
		}
		*list = append(*list, w.progress[k])
		w.delete(k)
	}
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
	w.epoch++
	return wholeRound{w}.Progress()
}

// Round is Progress for a layer that keeps rounds from nesting by itself. Most rounds of a worker with one
// progressor are nothing but a call of that.
func (w *Worker) Round() int {
	if w.epoch++; w.epoch >= w.nextLook {
		w.rounder = wholeRound{w}
	}
	return w.rounder.Progress()
}

// wholeRound runs a round with all that may belong to it.
type wholeRound struct{ w *Worker }

// Arm implements Progressor.
func (wholeRound) Arm(EventFlags) error { return nil }

// Progress implements Progressor.
func (r wholeRound) Progress() int {
	w := r.w
	w.inProgress = true
	n := w.progressAll()
	if platform.Simulated || w.epoch >= w.nextLook {
		n += w.look(n)
	}
	w.inProgress = false
	return n
}

// progressAll calls the progressors whose turn it is.
func (w *Worker) progressAll() (n int) {
	for k, p := range w.progress {
		if got := p.Progress(); got > 0 {
			n += got
			w.busy |= 1 << (k & 63)
		}
	}
	if len(w.quiet) == 0 {
		return n
	}
	now := cpu.Counter()
	away := now-w.visited > restCounts
	w.visited = now
	if away || w.epoch%quietGap == 0 {
		n += w.visitQuiet(away)
	}
	return n
}

// look runs after a round that has handled n events. It polls the event set if the last poll was too long ago,
// or if a sleep may have ended and nothing has happened, and brings the list of progressors up to date. In a
// simulation, where a poll is no system call, it polls after every round.
//
//go:noinline
func (w *Worker) look(n int) int {
	now := w.RoughNow()
	each := (now - w.lookedAt) / time.Duration(w.epoch-w.lookedIn)
	w.lookedIn, w.lookedAt = w.epoch, now
	if w.nextLook = w.epoch + lookGap; each > rarePollTime/lookGap {
		w.nextLook = w.epoch + uint64(max(rarePollTime/each, 1))
	}
	longest := maxPollTime
	if each >= longRound {
		longest = rarePollTime
	}
	mustPoll := w.mustPoll && n == 0
	n = 0
	if w.polled != w.epoch && (platform.Simulated || mustPoll || w.epoch >= w.nextPoll || now-w.polledAt >= longest) {
		n = w.PollEvents()
		w.pollGap = min(2*w.pollGap, maxPollGap)
		w.nextPoll = w.epoch + w.pollGap
		w.polledAt = now
	}
	if w.owesPoll = w.mustPoll; w.owesPoll {
		w.nextLook = 0
	}
	w.rank()
	if w.hasPlaceholders {
		w.hasPlaceholders = false
		removed := func(p Progressor) bool { return p == removedProgressor{} }
		for k := len(w.progress) - 1; k >= 0; k-- {
			if removed(w.progress[k]) {
				w.delete(k)
			}
		}
		w.quiet, w.resting = slices.DeleteFunc(w.quiet, removed), slices.DeleteFunc(w.resting, removed)
	}
	for _, p := range w.added {
		w.insert(p, false)
	}
	clear(w.added)
	w.added = w.added[:0]
	w.findSole()
	return n
}

// PollEvents polls the event set, at most once per round, and returns the number of handlers
// run. A progressor whose work arrives through descriptors calls it; other progressors need
// not.
func (w *Worker) PollEvents() int {
	if w.polled == w.epoch {
		return 0
	}
	w.polled, w.mustPoll, w.owesPoll = w.epoch, false, false
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

// PollsNow reports whether a poll of the event set is due: the application may have slept, and the rounds since
// then had events of other kinds, so the set was not polled. A progressor that otherwise looks for events
// without asking the set calls PollEvents instead in this round.
func (w *Worker) PollsNow() bool { return w.owesPoll }

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
	if w.owesPoll {
		return ucs.ErrBusy // what has woken the worker may still be there, and would wake it again
	}
	for _, list := range [][]Progressor{w.progress, w.quiet, w.resting} {
		for _, p := range list {
			if err := p.Arm(events); err != nil {
				return err
			}
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
