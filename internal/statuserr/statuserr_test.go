package statuserr

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

func TestText(t *testing.T) {
	closed := errors.New("closed by the peer")
	for _, c := range []struct {
		cause  error
		status ucs.Status
		want   string
	}{
		{syscall.ECONNRESET, ucs.ErrConnectionReset, "connection reset by peer"},
		{syscall.EPIPE, ucs.ErrConnectionReset, "broken pipe"},
		{syscall.EADDRINUSE, ucs.ErrBusy, "address already in use"},
		{fmt.Errorf("raise the limit: %w", syscall.EMFILE), ucs.ErrIO, "raise the limit: too many open files"},
		{syscall.EACCES, ucs.ErrConnectionReset, "permission denied: " + ucs.ErrConnectionReset.Error()},
		{closed, ucs.ErrRejected, "closed by the peer: " + ucs.ErrRejected.Error()},
		{fmt.Errorf("told: %w", ucs.ErrRejected), ucs.ErrRejected, "told: " + ucs.ErrRejected.Error()},
	} {
		if err := Matching(c.cause, c.status); err.Error() != c.cause.Error() || !errors.Is(err, c.status) || !errors.Is(err, c.cause) {
			t.Errorf("%v that matches %v: %q", c.cause, c.status, err)
		}
		err := New(c.cause, c.status)
		if err.Error() != c.want || !errors.Is(err, c.status) || !errors.Is(err, c.cause) {
			t.Errorf("%v with %v: %q, want %q", c.cause, c.status, err, c.want)
		}
	}
}
