//go:build !linux

package ucttest

import (
	"context"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// wait waits 1 ms.
func wait([]*Host) { time.Sleep(time.Millisecond) }

// readable waits at most ms milliseconds and reports whether the worker's event set has an
// event.
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

// Files returns an assumed limit of open descriptors, for tests that open as many as they can.
// It does not query the system.
func Files() int { return 1 << 10 }
