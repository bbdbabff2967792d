package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// crowd is a worker with peers over shared memory that have opened endpoints to it.
type crowd struct {
	testing.TB
	*Worker
	peers []*Worker
	ends  []*Endpoint // endpoints of the peers
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	ucttest.NoLeaks(t)
	ctx := contextFor(t, FeatureTag|FeatureAM, "TLS", "posix", "KEEPALIVE_INTERVAL", "inf")
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func() *Worker {
		w, err := ctx.NewWorker(WorkerParams{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		return w
	}
	c := &crowd{TB: t, Worker: open()}
	for range n {
		p := open()
		ep, err := p.NewEndpoint(EndpointParams{Address: c.Worker.own.address, ErrMode: ErrModePeer})
		if err != nil {
			t.Fatal(err)
		}
		c.peers, c.ends = append(c.peers, p), append(c.ends, ep)
		c.meets(len(c.ends) - 1)
	}
	return c
}

// meets has a peer send a message with an acknowledgement, for which the worker opens an endpoint
// to the peer.
func (c *crowd) meets(k int) {
	c.Helper()
	recv, err := c.TagRecv(1, FullMask, make([]byte, 8), nil)
	if err != nil {
		c.Fatal(err)
	}
	sent, err := c.ends[k].TagSendSync(1, make([]byte, 8), nil)
	if err != nil {
		c.Fatal(err)
	}
	for !sent.Done() || !recv.Done() {
		c.Worker.Progress()
		c.peers[k].Progress()
	}
	if err := sent.Err(); err != nil {
		c.Fatal(err)
	}
	sent.Free()
	recv.Free()
}

// has reports whether the worker has an endpoint to a peer.
func (c *crowd) has(k int) bool {
	found := false
	c.Worker.endpoints.Each(func(ep *Endpoint) { found = found || ep.peer.UUID() == c.peers[k].uuid })
	return found
}

// TestReclaim checks which endpoints a worker closes for lack of room: first those of peers that
// are gone, then the oldest idle one; never those of the application, nor those of the peer that
// requests an endpoint.
func TestReclaim(t *testing.T) {
	logs := logtest.Watch(t)
	logs.Expect("closing the oldest idle endpoints of peers to make room")
	c := newCrowd(t, 6)
	if _, err := c.NewEndpoint(EndpointParams{Address: c.peers[0].own.address, ErrMode: ErrModePeer}); err != nil {
		t.Fatal(err)
	}
	busy, err := c.anEndpoint(2).TagSendSync(9, make([]byte, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.peers[4].Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what    string
		opening int // the peer that requests an endpoint
		goes    int // peer to lose its endpoint; -1: none
	}{
		{"the peer that is gone", 5, 4}, {"the oldest", 5, 1}, {"the next but the one that waits", 5, 3},
		{"the last", 0, 5}, {"nobody", 0, -1},
	} {
		c.Worker.wireups.opening = c.peers[step.opening].uuid
		if step.goes == 4 {
			c.looks()
		}
		before := c.Worker.endpoints.Len()
		if got := c.accounts.reclaimEndpoints(); got != (step.goes >= 0) {
			t.Errorf("%s: %v", step.what, got)
		}
		if n := before - c.Worker.endpoints.Len(); step.goes >= 0 && (n != 1 || c.has(step.goes)) || step.goes < 0 && n != 0 {
			t.Errorf("%s: %d endpoints were closed", step.what, n)
		}
	}
	c.Worker.wireups.opening = 0
	for k, want := range []bool{true, false, true, false, false, false} {
		if c.has(k) != want {
			t.Errorf("endpoint to peer %d: %v", k, !want)
		}
	}
	if busy.Done() {
		t.Errorf("an operation has ended: %v", busy.Err())
	}
	c.Worker.owner.acquire()
	c.Worker.endpoints.Each(func(ep *Endpoint) { ep.w.ends.destroy(ep, ucs.ErrCanceled) })
	c.Worker.owner.release()
	busy.Free()
}

// anEndpoint returns the worker's endpoint to a peer.
func (c *crowd) anEndpoint(k int) (found *Endpoint) {
	c.Worker.endpoints.Each(func(ep *Endpoint) {
		if ep.peer.UUID() == c.peers[k].uuid {
			found = ep
		}
	})
	return found
}

// looks has the transport check its endpoints, as it does for each new one.
func (c *crowd) looks() {
	c.Helper()
	if _, err := c.NewEndpoint(EndpointParams{Address: c.peers[0].own.address, ErrMode: ErrModePeer}); err != nil {
		c.Fatal(err)
	}
}

// TestReclaimElsewhere checks that a worker without endpoints to close asks the other workers of
// the process to close some.
func TestReclaimElsewhere(t *testing.T) {
	logs := logtest.Watch(t)
	logs.Expect("closing the oldest idle endpoints of peers to make room")
	c := newCrowd(t, 2)
	if c.peers[0].accounts.reclaimEndpoints() {
		t.Error("there was something to close")
	}
	for c.has(0) {
		c.Worker.Progress()
	}
	if !c.has(1) {
		t.Error("more than the oldest was closed")
	}
}
