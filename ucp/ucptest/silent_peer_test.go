//go:build linux

package ucptest

import (
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestSilenceOverRC checks that a peer over reliable connections that vanishes without a disconnect
// is detected within three intervals of the keepalive, although nothing is sent and the keepalive
// goes over datagrams, whose timeout is half a minute.
func TestSilenceOverRC(t *testing.T) {
	needtest.Goroutines(t)
	const interval = 2 * time.Second
	r := newRig(t, rc.with(setting{"UD_TIMEOUT", "30s"}, setting{"KEEPALIVE_INTERVAL", interval.String()}))
	a, b := r.pair()
	var f failure
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	r.warm(ep, b)
	net := fake.Fabric()
	net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	defer net.SetHook(nil)
	start := time.Now()
	for f.calls == 0 && time.Since(start) < 3*interval {
		r.sleep(10)
		a.Progress()
	}
	if f.calls != 1 || f.err == nil {
		t.Errorf("after %v: told %d times, %v", time.Since(start), f.calls, f.err)
	}
	net.SetHook(nil)
}
