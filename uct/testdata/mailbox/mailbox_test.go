package mailbox

import (
	"context"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestConformance runs the suite that every transport passes.
func TestConformance(t *testing.T) {
	ucttest.Run(t, ucttest.Fixture{Component: component{}, SelectiveWakeup: true})
}

// TestUCP sends a message between two workers of package ucp, which finds the transport because it
// is registered.
func TestUCP(t *testing.T) {
	t.Setenv("UCX_TLS", name)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func() *ucp.Worker {
		c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	from, to := open(), open()
	addr, err := to.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := from.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{5, 100_000} { // eager, then fragments or rendezvous
		want, got := ucttest.Pattern(size, 1), make([]byte, size)
		sent := make(chan error, 1)
		go func() { sent <- ep.TagSendWait(ctx, 7, want) }()
		info, err := to.TagRecvWait(ctx, 7, ^ucp.Tag(0), got)
		if err != nil || info.Length != size {
			t.Fatalf("received %d bytes of %d: %v", info.Length, size, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		ucttest.SameBytes(t, "message", got, want)
	}
	if err := ep.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
