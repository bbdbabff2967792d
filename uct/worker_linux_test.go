package uct

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

func newWorker(t *testing.T) *Worker {
	t.Helper()
	w, err := NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.set != nil {
			if err := w.Close(); err != nil {
				t.Errorf("closing the worker: %v", err)
			}
		}
	})
	return w
}

// part is a Service that logs.
type part struct {
	name     string
	log      *[]string
	n        int
	arm      error
	closeErr error
	do       func()
}

func (p *part) Progress() int {
	*p.log = append(*p.log, p.name)
	if p.do != nil {
		p.do()
	}
	return p.n
}

func (p *part) Arm(EventFlags) error { return p.arm }
func (p *part) Push()                { *p.log = append(*p.log, "push "+p.name) }

func (p *part) Close() error {
	*p.log = append(*p.log, "close "+p.name)
	return p.closeErr
}

// plain is a Progressor without optional methods.
type plain struct{ n int }

func (p *plain) Progress() int        { return p.n }
func (p *plain) Arm(EventFlags) error { return nil }

func TestWorkerProgress(t *testing.T) {
	w := newWorker(t)
	var log []string
	a := &part{name: "a", log: &log, n: 2}
	b := &part{name: "b", log: &log, n: 3}
	w.AddProgress(a)
	w.AddProgress(b)
	epoch := w.Epoch()
	if n := w.Progress(); n != 5 || !slices.Equal(log, []string{"a", "b"}) {
		t.Errorf("%d events, calls %v", n, log)
	}
	if w.Epoch() != epoch+1 {
		t.Errorf("epoch %d after one round, was %d", w.Epoch(), epoch)
	}
	log = nil
	w.RemoveProgress(a)
	w.RemoveProgress(a) // no effect on unknown ones
	if n := w.Progress(); n != 3 || !slices.Equal(log, []string{"b"}) {
		t.Errorf("%d events, calls %v after removing a", n, log)
	}
}

// TestWorkerProgressNested: a call of Progress inside a round does nothing.
func TestWorkerProgressNested(t *testing.T) {
	w := newWorker(t)
	var log []string
	a := &part{name: "a", log: &log, n: 1}
	a.do = func() {
		epoch := w.Epoch()
		if n := w.Progress(); n != 0 || w.Epoch() != epoch {
			t.Errorf("nested round: %d events, epoch %d, was %d", n, w.Epoch(), epoch)
		}
	}
	w.AddProgress(a)
	for range 2 {
		if n := w.Progress(); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	}
	if !slices.Equal(log, []string{"a", "a"}) {
		t.Errorf("calls %v", log)
	}
}

// TestWorkerChangedWhileProgressing adds and removes progressors inside a round: an added one is
// called from the next round on, a removed one is not called any more, and all others are called.
func TestWorkerChangedWhileProgressing(t *testing.T) {
	w := newWorker(t)
	var log []string
	a := &part{name: "a", log: &log}
	b := &part{name: "b", log: &log}
	c := &part{name: "c", log: &log}
	d := &part{name: "d", log: &log}
	e := &part{name: "e", log: &log}
	a.do = func() {
		w.AddProgress(d)
		w.RemoveProgress(a)
		w.RemoveProgress(c)
		w.RemoveProgress(d)
		w.AddProgress(d)
	}
	for _, p := range []*part{a, b, c, e} {
		w.AddProgress(p)
	}
	w.Progress()
	if !slices.Equal(log, []string{"a", "b", "e"}) {
		t.Errorf("round with changes called %v", log)
	}
	log = nil
	w.Progress()
	if !slices.Equal(log, []string{"b", "e", "d"}) {
		t.Errorf("round after the changes called %v", log)
	}
}

// watched is an eventfd whose handler counts its calls.
type watched struct {
	fd    int
	calls int
}

func newWatched(t *testing.T, w *Worker) *watched {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	h := &watched{fd: fd}
	if err := w.Events().Add(fd, event.Read, h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return h
}

func (h *watched) HandleEvent(event.Events) {
	h.calls++
	var buf [8]byte
	unix.Read(h.fd, buf[:])
}

func (h *watched) signal() {
	one := [8]byte{1}
	unix.Write(h.fd, one[:])
}

func readable(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// TestWorkerPollsOncePerRound: a round polls once, however many progressors ask for it.
func TestWorkerPollsOncePerRound(t *testing.T) {
	w := newWorker(t)
	h := newWatched(t, w)
	var log []string
	var got []int
	poll := func() {
		got = append(got, w.PollEvents())
		h.signal() // an event for the next poll, if any
	}
	for _, name := range []string{"a", "b", "c"} {
		w.AddProgress(&part{name: name, log: &log, do: poll})
	}
	h.signal()
	w.Progress()
	if !slices.Equal(got, []int{1, 0, 0}) || h.calls != 1 {
		t.Errorf("polls gave %v, handler ran %d times", got, h.calls)
	}
	got = nil
	w.Progress()
	if !slices.Equal(got, []int{1, 0, 0}) || h.calls != 2 {
		t.Errorf("second round: polls gave %v, handler ran %d times", got, h.calls)
	}
}

// TestWorkerPollsWithoutBeingAsked: if no progressor asks, the event set is polled after Arm and
// once in a number of rounds.
func TestWorkerPollsWithoutBeingAsked(t *testing.T) {
	w := newWorker(t)
	h := newWatched(t, w)
	h.signal()
	for h.calls == 0 && w.Epoch() < 2*minPollGap {
		w.Progress()
	}
	if h.calls != 1 {
		t.Errorf("handler ran %d times by round %d", h.calls, w.Epoch())
	}
	// The gaps between polls grow to a limit while there are no events, and are short again after
	// an event.
	for range 4 * maxPollGap {
		w.Progress()
	}
	h.signal()
	idle := w.Epoch()
	for h.calls == 1 && w.Epoch() < idle+2*maxPollGap {
		w.Progress()
	}
	if gap := w.pollGap; h.calls != 2 || w.Epoch()-idle > maxPollGap || gap != 2*minPollGap {
		t.Errorf("handler ran %d times, %d rounds after the event; the next gap is %d", h.calls, w.Epoch()-idle, gap)
	}
	if err := w.Arm(); err != nil {
		t.Fatal(err)
	}
	if readable(t, w.EventFD()) {
		t.Error("readable with nothing to do")
	}
	h.signal()
	if !readable(t, w.EventFD()) {
		t.Error("armed, signalled and not readable")
	}
	if n := w.Progress(); n != 1 || h.calls != 3 {
		t.Errorf("first round after Arm: %d events, handler ran %d times", n, h.calls)
	}
}

// eventful is a progressor that has an event in some rounds.
type eventful struct {
	w        *Worker
	events   int // of the next round
	pollsNow bool
}

func (p *eventful) Arm(EventFlags) error { return nil }

func (p *eventful) Progress() int {
	p.pollsNow = p.w.PollsNow()
	return p.events
}

// TestWorkerPollsAfterSleep: the first round after a sleep that has no other events polls the event set.
func TestWorkerPollsAfterSleep(t *testing.T) {
	w := newWorker(t)
	h := newWatched(t, w)
	p := &eventful{w: w}
	w.AddProgress(p)
	for range minPollGap { // the next polls that nobody asks for are far
		w.Progress()
	}
	if err := w.Arm(); err != nil {
		t.Fatal(err)
	}
	h.signal()
	w.polledAt = w.RoughNow()
	for k, want := range []eventful{{events: 1}, {events: 1, pollsNow: true}, {pollsNow: true}} {
		p.events = want.events
		calls := h.calls
		if n := w.Progress(); p.pollsNow != want.pollsNow || n == 0 {
			t.Errorf("round %d after the sleep: %d events, PollsNow %v", k, n, p.pollsNow)
		}
		if polled := h.calls > calls; polled != (k == 2) {
			t.Errorf("round %d after the sleep polls: %v", k, polled)
		}
		if err := w.Arm(); k < 2 && err != ucs.ErrBusy || k == 2 && err != nil {
			t.Errorf("round %d after the sleep: Arm gives %v", k, err)
		}
		if k == 2 {
			break
		}
	}
}

// TestWorkerProgressedRarely: if a worker is progressed rarely, each round polls the event set,
// unless it was polled just before. This takes effect after some slow rounds at the latest.
func TestWorkerProgressedRarely(t *testing.T) {
	w := newWorker(t)
	h := newWatched(t, w)
	for range 4 * maxPollGap {
		w.Progress()
	}
	h.signal()
	for range lookGap {
		w.lookedAt -= time.Second // as if the clock was read a second ago
		w.polledAt -= time.Second
		w.Progress()
	}
	if h.calls != 1 {
		t.Fatalf("the handler ran %d times in %d slow rounds", h.calls, lookGap)
	}
	for k := range 10 {
		h.signal()
		w.lookedAt -= time.Second
		w.polledAt -= time.Second
		if n := w.Progress(); n != 1 {
			t.Fatalf("slow round %d: %d events", k, n)
		}
	}
	h.signal()
	w.lookedAt -= time.Second
	w.polledAt += time.Hour
	if n := w.Progress(); n != 0 {
		t.Errorf("a slow round behind a poll: %d events", n)
	}
}

// TestWorkerLooks: the clock is read about each millisecond, estimated from the time of the last
// rounds, but at most once a round and at least once in lookGap rounds.
func TestWorkerLooks(t *testing.T) {
	const rounds = 1e6 // so many that the time of the test does not matter
	for _, c := range []struct {
		took time.Duration
		want uint64
	}{{-time.Hour, lookGap}, {180 * time.Microsecond, 5}, {time.Hour, 1}} {
		w := newWorker(t)
		w.epoch += rounds
		w.lookedIn, w.lookedAt = w.epoch+1-rounds, w.clock.Again(w.epoch)-rounds*c.took
		w.nextLook = 0
		w.Progress()
		if got := w.nextLook - w.epoch; got != c.want {
			t.Errorf("rounds of %v: the next look is %d rounds later, want %d", c.took, got, c.want)
		}
	}
}

// TestWorkerRests: a worker that waits only for events polls in fewer rounds than it is progressed
// once there were no events for long. It polls in each round after an event, and at once after Arm.
func TestWorkerRests(t *testing.T) {
	w := newWorker(t)
	h := newWatched(t, w)
	polls := 0
	var log []string
	w.AddProgress(&part{name: "a", log: &log, do: func() {
		w.AwaitEvents()
		if w.polled == w.epoch {
			polls++
		}
	}})
	round := func() (polled bool) {
		before := polls
		w.Progress()
		return polls > before
	}
	always := func(what string) {
		t.Helper()
		for k := range emptyPollLimit {
			if !round() {
				t.Fatalf("%s: no poll in round %d", what, k)
			}
		}
	}
	always("a new worker")
	begin := w.Now()
	polls = 0
	for range 100_000 {
		w.Progress()
	}
	if most := int((w.Now()-begin)/restTime) + 1; polls > most {
		t.Errorf("%d polls, want at most %d in %v", polls, most, w.Now()-begin)
	}
	if err := w.Arm(); err != nil {
		t.Fatal(err)
	}
	if !round() {
		t.Error("no poll after Arm")
	}
	h.signal()
	for begin := w.Now(); h.calls == 0 && w.Now() <= begin+restTime; {
		w.Progress()
	}
	if h.calls != 1 {
		t.Errorf("%d calls of the handler when the rest was over", h.calls)
	}
	always("after an event")
}

func TestWorkerArm(t *testing.T) {
	w := newWorker(t)
	var log []string
	a := &part{name: "a", log: &log}
	b := &part{name: "b", log: &log}
	w.AddProgress(&plain{}) // not asked
	w.AddProgress(a)
	w.AddProgress(b)
	if err := w.Arm(); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
	b.arm = ucs.ErrBusy
	if err := w.Arm(); err != ucs.ErrBusy {
		t.Errorf("b is busy: %v", err)
	}
	b.arm = nil
	if err := w.Arm(); err != nil {
		t.Errorf("not busy any more: %v", err)
	}
	if len(log) != 0 {
		t.Errorf("Arm progressed %v", log)
	}
}

func TestWorkerService(t *testing.T) {
	w := newWorker(t)
	var log []string
	opened := 0
	open := func() (Service, error) {
		opened++
		return &part{name: "s", log: &log, n: 1}, nil
	}
	first, err := w.Service("s", open)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.Service("s", open)
	if err != nil || first != second || opened != 1 {
		t.Errorf("second time: same %v, opened %d times, error %v", first == second, opened, err)
	}
	refused := errors.New("refused")
	if _, err := w.Service("x", func() (Service, error) { return nil, refused }); err != refused {
		t.Errorf("service that does not open: %v", err)
	}
	if n := w.Progress(); n != 1 || !slices.Equal(log, []string{"s"}) {
		t.Errorf("%d events, calls %v", n, log)
	}
	log = nil
	if err := w.Close(); err != nil || !slices.Equal(log, []string{"close s"}) {
		t.Errorf("closing: %v, calls %v", err, log)
	}
	if err := w.Close(); err != ucs.ErrInvalidParam {
		t.Errorf("closing twice: %v", err)
	}
}

// TestWorkerCloseError: Close closes all services even if one fails, and returns the first error.
func TestWorkerCloseError(t *testing.T) {
	w := newWorker(t)
	var log []string
	bad := errors.New("bad")
	for _, name := range []string{"a", "b"} {
		if _, err := w.Service(name, func() (Service, error) {
			return &part{name: name, log: &log, closeErr: bad}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	fd := w.EventFD()
	if err := w.Close(); err != bad || len(log) != 2 {
		t.Errorf("closing: %v, calls %v", err, log)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the worker's descriptor after closing: %v", err)
	}
}

func TestWorkerTimers(t *testing.T) {
	w := newWorker(t)
	fired := 0
	if _, err := w.Timers().After(0, func() { fired++ }); err != nil {
		t.Fatal(err)
	}
	never, err := w.Timers().After(time.Hour, func() { t.Error("a stopped timer ran") })
	if err != nil {
		t.Fatal(err)
	}
	if !never.Stop() {
		t.Error("the timer was not scheduled")
	}
	if err := w.Arm(); err != nil {
		t.Fatal(err)
	}
	fds := []unix.PollFd{{Fd: int32(w.EventFD()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			break
		}
	}
	w.Progress()
	if fired != 1 {
		t.Errorf("ran %d times, want 1", fired)
	}
}

func TestWorkerProgressDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	w := newWorker(t)
	for range 3 {
		w.AddProgress(&plain{})
	}
	if n := testing.AllocsPerRun(1000, func() { w.Progress() }); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}
