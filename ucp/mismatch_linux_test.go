package ucp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// mismatching is an interface that reports a mismatch with every peer: the peer would regard this
// worker as reachable, and is not reachable from here.
type mismatching struct{ uct.Iface }

func (mismatching) Reachable(uct.ReachableParams) error {
	return fmt.Errorf("%w: set UCX_PEER_RELEASE: %w", uct.ErrMismatch, ucs.ErrUnreachable)
}

// TestMismatch: the creation of an endpoint to a peer that would hang in shared memory fails and
// names the setting to change, although another transport reaches the peer. If error handling keeps
// the peer from using that memory there is only one warning.
func TestMismatch(t *testing.T) {
	logs := logtest.Watch(t)
	ctx := targetContext(t, "TLS", "posix,sysv")
	w := openTarget(t, ctx)
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), ctx.Close()); err != nil {
			t.Error(err)
		}
	})
	found := false
	for _, i := range w.ifaces {
		if i.attr.Resource.Transport == "posix" {
			whole := i.uct
			t.Cleanup(func() { i.uct = whole }) // Worker.Close needs its other methods
			i.uct, found = mismatching{i.uct}, true
		}
	}
	if !found {
		t.Fatal("no posix")
	}
	for range 2 { // the second time from the cache
		if _, err := w.NewEndpoint(EndpointParams{Address: w.own.address}); !errors.Is(err, ucs.ErrUnreachable) || !errors.Is(err, uct.ErrMismatch) {
			t.Errorf("the endpoint: %v", err)
		}
	}
	logs.Expect("a C UCX peer with these settings may hang")
	for range 2 {
		if _, err := w.NewEndpoint(EndpointParams{Address: w.own.address, ErrMode: ErrModePeer}); err != nil {
			t.Error(err)
		}
	}
}
