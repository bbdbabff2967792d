//go:build linux

package main

import (
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestAgainstC(t *testing.T) { compareWithC(t) }

// TestSelftestDevice checks that a real device passes the selftest, and so supports all that the
// library needs.
func TestSelftestDevice(t *testing.T) {
	ucttest.NoLeaks(t)
	name := rdmatest.Device(t)
	if stdout, stderr, code := runs(machine{open: (*verbs.Device).Open}, "--selftest", name); code != exitOK || stderr != "" {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
}
