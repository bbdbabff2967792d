//go:build linux

package sockcm

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// TestStatus checks the status that the application gets for each cause, before and after the
// server has sent something.
func TestStatus(t *testing.T) {
	asked := link{machine: machine{state: awaitAnswer}}
	heard := link{machine: machine{state: awaitAnswer, receivedAny: true}}
	server := link{}
	for _, c := range []struct {
		cause         error
		before, after ucs.Status
	}{
		{errEnd, ucs.ErrNotConnected, ucs.ErrConnectionReset},
		{unix.ECONNREFUSED, ucs.ErrNotConnected, ucs.ErrConnectionReset},
		{unix.ECONNRESET, ucs.ErrNotConnected, ucs.ErrConnectionReset},
		{unix.ENOTCONN, ucs.ErrNotConnected, ucs.ErrConnectionReset},
		{unix.ETIMEDOUT, ucs.ErrUnreachable, ucs.ErrConnectionReset},
		{unix.ENETUNREACH, ucs.ErrUnreachable, ucs.ErrConnectionReset},
		{unix.EHOSTUNREACH, ucs.ErrUnreachable, ucs.ErrConnectionReset},
		{unix.ENOBUFS, ucs.ErrIO, ucs.ErrConnectionReset},
		{errSelf, ucs.ErrNotConnected, ucs.ErrNotConnected},
	} {
		for l, want := range map[*link]ucs.Status{&asked: c.before, &heard: c.after, &server: c.after} {
			if err := l.broken("read", c.cause); ucs.StatusOf(err) != want || !errors.Is(err, c.cause) {
				t.Errorf("%v in state %d: %v, want %v", c.cause, l.state, err, want)
			}
		}
	}
}

// TestRemarkable: network failures and protocol violations are logged; peers that leave or refuse
// are not.
func TestRemarkable(t *testing.T) {
	l := link{machine: machine{state: awaitAnswer}}
	for cause, want := range map[error]bool{
		unix.EHOSTUNREACH: true, errTurn: true,
		errEnd: false, unix.ECONNREFUSED: false, unix.ECONNRESET: false, unix.EPIPE: false, ucs.ErrRejected: false,
	} {
		if got := remarkable(l.broken("read", cause)); got != want {
			t.Errorf("%v: %v", cause, got)
		}
	}
	if remarkable(nil) {
		t.Error("no error is remarkable")
	}
}
