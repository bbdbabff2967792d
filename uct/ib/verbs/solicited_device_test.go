//go:build linux

package verbs_test

import "testing"

// TestSolicitedOnlyRXE: the device without a kernel has the rule of the real one.
func TestSolicitedOnlyRXE(t *testing.T) { testSolicitedOnly(t, ours(t)) }
