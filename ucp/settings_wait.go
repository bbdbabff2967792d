package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs/config"
)

// WaitPolicy selects how calls that wait spend their time.
type WaitPolicy uint8

// Policies of waiting.
const (
	// WaitAdaptive spins and yields while recent waits show that this pays off, and
	// otherwise sleeps soon.
	WaitAdaptive WaitPolicy = iota

	// WaitLatency always spins. It is the fastest policy if the waiting goroutine has a CPU
	// to itself, which it uses fully.
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
