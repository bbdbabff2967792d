package ucp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// mismatching is an interface that says of all peers that they take it for reachable and are
// not.
type mismatching struct{ uct.Iface }

func (mismatching) Reachable(uct.ReachableParams) error {
	return fmt.Errorf("%w: set UCX_PEER_RELEASE: %w", uct.ErrMismatch, ucs.ErrUnreachable)
}

// TestMismatch: an endpoint to a peer that would hang in its shared memory fails and says what
// to set, although there is another way; where the peer may not use that it is warned of, once.
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
			t.Cleanup(func() { i.uct = whole }) // for the end of the worker: it has more methods
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
	logs.Expect("a peer of C UCX may hang")
	for range 2 {
		if _, err := w.NewEndpoint(EndpointParams{Address: w.own.address, ErrMode: ErrModePeer}); err != nil {
			t.Error(err)
		}
	}
}
