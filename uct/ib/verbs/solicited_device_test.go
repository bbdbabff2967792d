//go:build linux

package verbs_test

import "testing"

// TestSolicitedOnlyRXE checks that the real soft-RoCE follows the rule of the simulated one.
func TestSolicitedOnlyRXE(t *testing.T) { testSolicitedOnly(t, ours(t)) }
