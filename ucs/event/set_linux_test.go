//go:build !simulate

package event

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

// handlerFunc is a Handler made of a function.
type handlerFunc func(Events)

func (f handlerFunc) HandleEvent(ev Events) { f(ev) }

// checkFDs fails the test if it leaves descriptors open.
func checkFDs(t *testing.T) {
	t.Helper()
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("cannot count descriptors: %v", err)
		}
		return len(names)
	}
	before := count()
	t.Cleanup(func() {
		if after := count(); after != before {
			t.Errorf("%d descriptors are open, %d were before the test", after, before)
		}
	})
}

func newSet(t *testing.T) *Set {
	t.Helper()
	checkFDs(t)
	s, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// pipe returns the ends of a pipe, closed when the test ends.
func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func put(t *testing.T, fd int) {
	t.Helper()
	if _, err := unix.Write(fd, []byte{1}); err != nil {
		t.Fatal(err)
	}
}

func drain(fd int) {
	var b [64]byte
	unix.Read(fd, b[:])
}

// readable reports whether the set's own descriptor is readable.
func readable(t *testing.T, s *Set, timeout int) bool {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}, timeout)
		if err != unix.EINTR {
			if err != nil {
				t.Fatal(err)
			}
			return n == 1
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEventNumbers(t *testing.T) {
	if Read != unix.EPOLLIN || Write != unix.EPOLLOUT || Err != unix.EPOLLERR || Hup != unix.EPOLLHUP || Edge != unix.EPOLLET {
		t.Error("the kinds of events do not have the kernel's numbers")
	}
}

func TestReadiness(t *testing.T) {
	s := newSet(t)
	r, w := pipe(t)
	var got []Events
	check(t, s.Add(r, Read, handlerFunc(func(ev Events) { got = append(got, ev) })))
	if n := s.Poll(); n != 0 || readable(t, s, 0) {
		t.Fatalf("Poll = %d, readable %v before anything happened", n, readable(t, s, 0))
	}
	put(t, w)
	if !readable(t, s, 0) {
		t.Error("the set's descriptor is not readable")
	}
	// Readiness lasts until it is consumed.
	for range 2 {
		if n := s.Poll(); n != 1 {
			t.Fatalf("Poll = %d, want 1", n)
		}
	}
	drain(r)
	if n := s.Poll(); n != 0 || !slices.Equal(got, []Events{Read, Read}) {
		t.Errorf("Poll = %d, events %v", n, got)
	}
	check(t, s.Modify(r, 0))
	put(t, w)
	if n := s.Poll(); n != 0 {
		t.Errorf("Poll = %d although nothing is asked for", n)
	}
	check(t, s.Modify(r, Read|Edge))
	for want := 1; want >= 0; want-- { // edges are delivered once
		if n := s.Poll(); n != want {
			t.Errorf("Poll = %d, want %d", n, want)
		}
	}
	check(t, s.Remove(r))
	put(t, w)
	if n := s.Poll(); n != 0 || readable(t, s, 0) {
		t.Errorf("Poll = %d after Remove", n)
	}
}

func TestWriteAndHup(t *testing.T) {
	s := newSet(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { unix.Close(fds[0]) })
	var got Events
	check(t, s.Add(fds[0], Write, handlerFunc(func(ev Events) { got = ev })))
	if s.Poll(); got != Write {
		t.Errorf("event %#x, want Write", got)
	}
	unix.Close(fds[1])
	check(t, s.Modify(fds[0], 0))
	if s.Poll(); got&Hup == 0 {
		t.Errorf("event %#x, want Hup although nothing is asked for", got)
	}
}

func TestWatchErrors(t *testing.T) {
	s := newSet(t)
	r, _ := pipe(t)
	h := handlerFunc(func(Events) {})
	check(t, s.Add(r, Read, h))
	if err := s.Add(r, Read, h); !errors.Is(err, ucs.ErrAlreadyExists) {
		t.Errorf("second Add = %v", err)
	}
	if err := s.Modify(r+1000, Read); !errors.Is(err, ucs.ErrNoElem) {
		t.Errorf("Modify of an unknown descriptor = %v", err)
	}
	if err := s.Remove(r + 1000); !errors.Is(err, ucs.ErrNoElem) {
		t.Errorf("Remove of an unknown descriptor = %v", err)
	}
	for range 3 { // a failed Add has no effect
		if err := s.Add(-1, Read, h); !errors.Is(err, unix.EBADF) {
			t.Errorf("Add of no descriptor = %v", err)
		}
	}
	if s.Len() != 1 || len(s.slots) != 2 || len(s.free) != 1 {
		t.Errorf("%d watched, %d slots, %d free", s.Len(), len(s.slots), len(s.free))
	}
}

// TestRemoveInHandler: the first of two ready descriptors removes the other, and a third descriptor
// gets its place. The event of the removed descriptor, which was already taken from the kernel, is
// delivered to no handler.
func TestRemoveInHandler(t *testing.T) {
	s := newSet(t)
	a, aw := pipe(t)
	b, bw := pipe(t)
	c, _ := pipe(t) // never ready
	var first, second, third int
	fds := [2]int{a, b}
	var counts [2]*int
	for i := range fds {
		counts[i] = new(int)
		check(t, s.Add(fds[i], Read, handlerFunc(func(Events) {
			*counts[i]++
			other := fds[1-i]
			check(t, s.Remove(other))
			check(t, s.Add(c, Read, handlerFunc(func(Events) { third++ })))
			if s.byFD[c] != int32(1-i) {
				t.Error("the slot is not reused: the test tests nothing")
			}
		})))
	}
	put(t, aw)
	put(t, bw)
	if n := s.Poll(); n != 1 {
		t.Errorf("Poll = %d, want 1", n)
	}
	first, second = *counts[0], *counts[1]
	if first+second != 1 || third != 0 {
		t.Errorf("handlers ran %d, %d, %d times", first, second, third)
	}
}

func TestCloseInHandler(t *testing.T) {
	s := newSet(t)
	ran := 0
	for range 3 {
		r, w := pipe(t)
		put(t, w)
		check(t, s.Add(r, Read, handlerFunc(func(Events) {
			ran++
			check(t, s.Close())
		})))
	}
	if n := s.Poll(); n != 1 || ran != 1 {
		t.Errorf("Poll = %d, %d handlers ran after Close", n, ran)
	}
}

func TestPollInHandler(t *testing.T) {
	s := newSet(t)
	ran := 0
	for range 2 {
		r, w := pipe(t)
		put(t, w)
		check(t, s.Add(r, Read, handlerFunc(func(Events) {
			ran++
			if n := s.Poll(); n != 0 {
				t.Errorf("Poll in a handler = %d", n)
			}
		})))
	}
	if n := s.Poll(); n != 2 || ran != 2 {
		t.Errorf("Poll = %d, %d handlers ran, want 2", n, ran)
	}
}

// TestManyReady checks that every descriptor gets its events when more are ready than one Poll
// takes.
func TestManyReady(t *testing.T) {
	s := newSet(t)
	const fds = 2*maxEvents + 5
	var ran [fds]int
	for i := range fds {
		r, w := pipe(t)
		put(t, w)
		check(t, s.Add(r, Read, handlerFunc(func(Events) { ran[i]++ })))
	}
	for range 3 {
		if n := s.Poll(); n > maxEvents {
			t.Fatalf("Poll = %d, more than %d", n, maxEvents)
		}
	}
	for i, n := range ran {
		if n == 0 {
			t.Errorf("descriptor %d was not served", i)
		}
	}
}

func TestSetClose(t *testing.T) {
	s := newSet(t)
	r, w := pipe(t)
	h := handlerFunc(func(Events) { t.Error("called after Close") })
	check(t, s.Add(r, Read, h))
	put(t, w)
	check(t, s.Close())
	check(t, s.Close())
	if s.FD() != -1 || s.Len() != 0 || s.Poll() != 0 {
		t.Error("a closed set does things")
	}
	if s.Add(r, Read, h) == nil || s.Modify(r, Read) == nil || s.Remove(r) == nil {
		t.Error("a closed set takes changes")
	}
	if _, err := unix.FcntlInt(uintptr(r), unix.F_GETFD, 0); err != nil {
		t.Errorf("the watched descriptor was closed: %v", err)
	}
}

func TestPollAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("allocation test: the race detector allocates")
	}
	s := newSet(t)
	r, w := pipe(t)
	ran := 0
	check(t, s.Add(r, Read, handlerFunc(func(Events) { ran++ })))
	put(t, w)
	if n := testing.AllocsPerRun(100, func() {
		s.Poll()
		check(t, s.Modify(r, Read))
	}); n != 0 {
		t.Errorf("%v allocations per Poll and Modify, want 0", n)
	}
	if ran == 0 {
		t.Error("the handler never ran")
	}
}

// TestWatchLimit checks that the error at the kernel's limit of watched descriptors names the
// remedy. The test does not reach the limit, which is the machine's.
func TestWatchLimit(t *testing.T) {
	err := withLimit(unix.ENOSPC)
	if !errors.Is(err, unix.ENOSPC) || !regexp.MustCompile(`^no space left on device: all epoll sets of the user may watch \d+ descriptors, raise the limit \(sysctl fs\.epoll\.max_user_watches\)$`).MatchString(err.Error()) {
		t.Error(err)
	}
	if err := withLimit(unix.EBADF); err != unix.EBADF {
		t.Error(err)
	}
}
