//go:build !linux

package ucttest

import (
	"context"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// wait waits a moment.
func wait([]*Host) { time.Sleep(time.Millisecond) }

// readable waits for the worker's event set, at most ms milliseconds.
func readable(t *testing.T, h *Host, ms int) bool {
	t.Helper()
	s, err := event.NewSleeper(h.Worker.Events())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
	defer cancel()
	return s.Sleep(ctx) == nil
}

// Files returns how many descriptors the process may have open at once, for tests
// that open as many as they can: nothing says so here.
func Files() int { return 1 << 10 }
