//go:build linux

package interop

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestRDMARetries: with keepalive off, operations toward a killed process fail by the device's
// retries alone, in the time that UCX_RC_VERBS_TIMEOUT and RETRY_COUNT set. With 7 retries
// soft-RoCE never gives up, which hardware does; for that there is the keepalive (TestRDMALost).
func TestRDMARetries(t *testing.T) {
	onVeth(t)
	limits := []string{"UCX_KEEPALIVE_INTERVAL=inf", "UCX_RC_VERBS_RETRY_COUNT=6", "UCX_RC_VERBS_TIMEOUT=250ms"}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if !ours.ours {
			return
		}
		p, err := newPair(where, ours, theirs, setting{mode: "peer", both: limits}, rdmaRoute(t, reliable))
		if err != nil {
			t.Fatal(err)
		}
		defer p.report(t)
		p.meet(t)
		before := retriesExceeded(t)
		p.theirs.process.kill()
		requests, _ := waiting(t, p)
		expectEnded(t, p, requests)
		if status, err := p.ours.failure(ep); err != nil || status != ucs.ErrEndpointTimeout {
			t.Errorf("the endpoint has failed with %v, %v", status, err)
		}
		if now := retriesExceeded(t); now == before {
			t.Error("the device has given nothing up")
		}
		closeAndExit(t, p, "flush")
	})
}

// retriesExceeded returns how often the Go side's device has used up all retries.
func retriesExceeded(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/sys/class/infiniband/rxe0/ports/1/hw_counters/retry_exceeded_err")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
