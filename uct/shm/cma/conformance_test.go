//go:build linux

package cma

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestConformance(t *testing.T) {
	needCMA(t)
	f := fixture(nil)
	const why = "the kernel knows no registrations; hostile_test.go has what it refuses"
	f.Skip = map[string]string{"remote memory refused": why, "remote permission refused": why}
	ucttest.Run(t, *f)
}

// TestConformanceInPieces runs the suite with short segments and few operations in progress.
func TestConformanceInPieces(t *testing.T) {
	needCMA(t)
	f := fixture(settingsOf(t, "SEG_SIZE=1000", "TX_QUOTA=3", "TX_MAX_BUFS=1", "MAX_IOV=2"))
	const why = "as in TestConformance"
	f.Skip = map[string]string{"remote memory refused": why, "remote permission refused": why}
	ucttest.Run(t, *f)
}
