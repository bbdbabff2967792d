package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs/config"
)

// WaitPolicy says how calls that wait spend their time.
type WaitPolicy uint8

// Policies of waiting.
const (
	// WaitAdaptive spins and yields while that has paid lately, and sleeps soon where
	// it has not.
	WaitAdaptive WaitPolicy = iota

	// WaitLatency spins all the time. That is the fastest where a wait has a CPU to
	// itself, of which it uses all.
	WaitLatency

	// WaitCPU sleeps at once.
	WaitCPU

	numWaitPolicies
)

// waitNames are the values of UCX_WAIT.
var waitNames = [numWaitPolicies]string{"adaptive", "latency", "cpu"}

// String returns the name that UCX_WAIT takes.
func (p WaitPolicy) String() string {
	if p < numWaitPolicies {
		return waitNames[p]
	}
	return fmt.Sprintf("WaitPolicy(%d)", uint8(p))
}

// waitSetting is the value of UCX_WAIT.
type waitSetting WaitPolicy

// ParseConfig implements config.Value.
func (v *waitSetting) ParseConfig(s string) error { return parseMode(v, s, waitNames[:]) }

// String implements config.Value.
func (v waitSetting) String() string { return WaitPolicy(v).String() }

// ConfigSyntax describes the values for error messages and listings.
func (waitSetting) ConfigSyntax() string { return config.EnumSyntax(waitNames[:]) }
