//go:build linux

package rigtest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Must returns a function that returns v, the result of a call that must succeed. The function ends
// the test if err is not nil.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return v
	}
}

// Check ends the test if a call failed.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Settings makes a configuration from names and values.
func Settings(t testing.TB, pairs ...string) *config.Set {
	t.Helper()
	set := new(config.Set)
	for k := 0; k+1 < len(pairs); k += 2 {
		Check(t, set.Modify(pairs[k], pairs[k+1]))
	}
	return set
}

// Refused checks that an endpoint that has failed accepts no operations: none of the messages, and
// none of the operations that the function more starts. That function returns their errors.
func Refused(t testing.TB, ep uct.Endpoint, more func(pk *ucttest.Packer, c *uct.Completion) []error) {
	t.Helper()
	c := ucttest.NewCompletion(1)
	pk := &ucttest.Packer{Data: []byte("x")}
	_, bcopy := ep.AMBcopy(1, pk, 0, &c.Completion)
	errs := []error{
		ep.AMShort(1, 2, nil, 0, &c.Completion), ep.AMShortIOV(1, nil, 0, &c.Completion), ep.AMZcopy(1, pk, nil, 0, &c.Completion),
		bcopy, ep.Flush(uct.FlushLocal, &c.Completion), ep.Check(&c.Completion), ep.Fence(),
	}
	if more != nil {
		errs = append(errs, more(pk, &c.Completion)...)
	}
	for k, err := range errs {
		if err == nil || err == ucs.InProgress || err == ucs.ErrNoResource {
			t.Errorf("operation %d on an endpoint that has failed: %v", k, err)
		}
	}
	p := ucttest.NewPending(func() error { return nil })
	if err := ep.PendingAdd(&p.Pending); err != ucs.ErrBusy {
		t.Errorf("adding a request: %v", err)
	}
	if c.Fired != 0 || pk.Calls != 0 {
		t.Errorf("refused, completed %d times and packed %d times", c.Fired, pk.Calls)
	}
}

// Gone counts the notifications that a source is gone (uct.SourceUser).
type Gone struct {
	src *uct.Source
	N   int
	Why error
}

// Watch counts the notifications that src is gone.
func Watch(src *uct.Source) *Gone {
	g := &Gone{src: src}
	src.User = g
	return g
}

// SourceGone implements uct.SourceUser.
func (g *Gone) SourceGone() { g.N, g.Why = g.N+1, g.src.Err() }

// Woken reports whether an armed host would wake, because its event descriptor is readable.
func Woken(t testing.TB, h *ucttest.Host) bool {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			Check(t, err)
			return n == 1
		}
	}
}

// PostShort is a benchmark that posts short messages on devices without a kernel. It measures
// neither the system call of a doorbell nor the work of the devices, which is done inside progress.
func PostShort(b *testing.B, x, y *ucttest.Host, ep uct.Endpoint) {
	payload := make([]byte, 8)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for ep.AMShort(1, 2, payload, 0, nil) == ucs.ErrNoResource {
			b.StopTimer()
			for x.Worker.Progress()+y.Worker.Progress() > 0 {
			}
			b.StartTimer()
		}
	}
}
