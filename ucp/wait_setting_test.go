package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/backoff"
)

// TestWaitSetting: UCX_WAIT and the parameter, which are those of package backoff by number.
func TestWaitSetting(t *testing.T) {
	for public, internal := range map[WaitPolicy]backoff.Policy{
		WaitAdaptive: backoff.Adaptive, WaitLatency: backoff.Latency, WaitCPU: backoff.CPU,
	} {
		if backoff.Policy(public) != internal {
			t.Errorf("%v is %d there", public, internal)
		}
	}
	for _, c := range []struct {
		setting string
		param   WaitPolicy
		want    WaitPolicy
	}{
		{"adaptive", WaitAdaptive, WaitAdaptive},
		{"latency", WaitAdaptive, WaitLatency},
		{" CPU", WaitAdaptive, WaitCPU},
		{"latency", WaitCPU, WaitCPU},
	} {
		ctx := targetContext(t, "TLS", "self", "WAIT", c.setting)
		w, err := ctx.NewWorker(WorkerParams{Wait: c.param})
		if err != nil {
			t.Fatal(err)
		}
		if WaitPolicy(w.backoff.Policy) != c.want {
			t.Errorf("setting %q, parameter %v: %v, want %v", c.setting, c.param, w.backoff.Policy, c.want)
		}
		w.Close()
		if _, err := ctx.NewWorker(WorkerParams{Wait: numWaitPolicies}); err == nil {
			t.Error("an unknown policy is taken")
		}
	}
	var v waitSetting
	if v.ParseConfig("sometimes") == nil {
		t.Error("an unknown value is taken")
	}
}
