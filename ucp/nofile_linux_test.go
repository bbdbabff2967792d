package ucp

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// impatient is a context that is canceled when its Err has been called a number of times.
type impatient struct {
	context.Context
	left   int
	cancel context.CancelFunc
}

func (c *impatient) Err() error {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestWaitWithoutDescriptors checks that a wait that cannot sleep, because no file descriptor is
// available, polls instead, and that a receive is canceled when its context ends.
func TestWaitWithoutDescriptors(t *testing.T) {
	for _, mode := range []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeMulti} {
		ctx := targetContext(t)
		defer ctx.Close()
		w, err := ctx.NewWorker(WorkerParams{ThreadMode: mode, Wait: WaitCPU})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		ep, err := w.NewEndpoint(EndpointParams{Address: w.own.address})
		if err != nil {
			t.Fatal(err)
		}
		var was unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		inner, cancel := context.WithCancel(t.Context())
		buf := make([]byte, 4)
		_, err = w.TagRecvWait(&impatient{inner, 5, cancel}, 1, FullMask, buf)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v: a receive without descriptors: %v", mode, err)
		}
		if _, err := ep.TagSend(1, []byte("late"), nil); err != nil {
			t.Fatal(err)
		}
		if string(buf) == "late" {
			t.Errorf("%v: a receive that has ended got a message", mode)
		}
	}
}

// noDescriptors prevents the process from opening descriptors until restore is called, at the
// latest at the end of the test.
func noDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	restore = func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	return restore
}
