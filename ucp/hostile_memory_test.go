package ucp

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Tests that what a peer can make a worker remember or answer is bounded.

func (v *targetWorker) wireup(m proto.Wireup) error {
	v.Helper()
	b, err := m.Append(nil)
	if err != nil {
		v.Fatal(err)
	}
	return v.wireups.onWireup(nil, b, nil)
}

// stranger returns a request of an unknown worker whose address leads to this worker.
func (v *targetWorker) stranger(uuid uint64, sn uint16) proto.Wireup {
	addr := v.own.described
	addr.UUID = uuid
	return proto.Wireup{Type: proto.WireupRequest, ConnSN: sn, SrcEp: 33, Address: addr}
}

// TestAnswersOnce: a request is answered as often as a peer may repeat it, and a reply once. Otherwise
// the answers to a peer that does not read would pile up.
func TestAnswersOnce(t *testing.T) {
	v := newTarget(t)
	for range 10 {
		if err := v.wireup(v.stranger(5, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.stats.WireupSent; n != 1+maxAnsweredAgain {
		t.Errorf("%d answers to ten equal requests", n)
	}
	v.stats.WireupSent = 0
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	ep.handshake.Stage = connect.Requested
	for range 10 {
		m := proto.Wireup{Type: proto.WireupReplyReconfig, SrcEp: 7, DstEp: ep.localID, Address: v.own.emptyAddress()}
		if err := v.wireup(m); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.stats.WireupSent; n != 1 || ep.remoteID != 7 {
		t.Errorf("%d answers to ten equal replies, the peer's id is %d", n, ep.remoteID)
	}
}

// TestPeerForgottenOnce: the end of an endpoint without a pairing number does not make
// the worker forget the peer if an endpoint to it was created since.
func TestPeerForgottenOnce(t *testing.T) {
	v := newTarget(t)
	if err := v.wireup(v.stranger(5, proto.ConnSNNone)); err != nil {
		t.Fatal(err)
	}
	var numberless *Endpoint
	v.endpoints.Each(func(ep *Endpoint) {
		if ep != v.ep {
			numberless = ep
		}
	})
	addr := v.own.described
	addr.UUID = 5
	packed, err := addr.Append(nil, proto.FormWorker)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := v.NewEndpoint(EndpointParams{Address: packed})
	if err != nil {
		t.Fatal(err)
	}
	numberless.w.ends.destroy(numberless, ucs.ErrCanceled)
	if !v.peers.HasNumbered(5) || v.peers.Idle() != 0 || ep.peer.UUID() != 5 {
		t.Error("the peer of an open endpoint is forgotten")
	}
}

// TestUnreachablePeerForgotten: a peer whose address leads nowhere is not remembered.
func TestUnreachablePeerForgotten(t *testing.T) {
	v := newTarget(t)
	packed, err := (&proto.WorkerAddress{Flags: proto.AddressHasUUID, UUID: 5}).Append(nil, proto.FormWorker)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.NewEndpoint(EndpointParams{Address: packed}); !errors.Is(err, ucs.ErrUnreachable) {
		t.Fatal(err)
	}
	if v.peers.Len() != 0 {
		t.Errorf("%d peers are remembered", v.peers.Len())
	}
}

// TestConfigsBounded: a worker keeps a bounded number of endpoint configurations, although they
// depend on a length that peers choose.
func TestConfigsBounded(t *testing.T) {
	v := newTarget(t)
	for n := range 1000 {
		if c := v.selection.configFor(&lanePlan{chosen: &proto.LaneConfig{Lanes: []proto.Lane{{SegSize: 64 * (n + 1)}}}}); c.maxBcopy > 64*(n+1) {
			t.Fatalf("messages of %d bytes for a peer that takes %d", c.maxBcopy, 64*(n+1))
		}
	}
	if len(v.selection.configs) > maxConfigs {
		t.Errorf("%d configurations are kept", len(v.selection.configs))
	}
}

// TestFirstOverLimit: if there is no room for the first fragment of a message, no
// incomplete message is left behind.
func TestFirstOverLimit(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "1k")
	b := make([]byte, proto.EagerFirstSize+2000)
	proto.EagerFirst{Tag: 1, TotalLen: 4000, MsgID: 77}.Put(b)
	if err := v.tag.onEagerFirst(nil, b, nil); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Error(err)
	}
	if _, found := v.TagPeek(1, FullMask); found || len(v.eager.assemblies) != 0 || v.accounts.Held() != 0 {
		t.Errorf("found %v, %d assemblies, %d bytes held", found, len(v.eager.assemblies), v.accounts.Held())
	}
}

// TestWireupTooLong: a wireup request that is longer than the peer's longest message
// ends the operation that needs it.
func TestWireupTooLong(t *testing.T) {
	v := newTarget(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	small := *ep.cfg
	small.chosen.Lanes = slices.Clone(small.chosen.Lanes)
	small.chosen.Lanes[small.lanes.Wireup].SegSize = 40
	ep.cfg = &small
	for range 2 {
		r, err := ep.TagSendSync(1, nil, nil)
		if err == nil {
			err = r.Err()
			r.Free()
		}
		if !errors.Is(err, ucs.ErrBufferTooSmall) {
			t.Error(err)
		}
	}
	if !ep.waiting.Empty() || ep.shortBelow == 0 {
		t.Error("the endpoint still waits")
	}
}

// lender lets handlers keep receive memory and counts what is kept.
type lender struct{ lent int }

func (l *lender) ReleaseDesc(*uct.AMDesc) { l.lent-- }

// TestKeptMemoryCounted: a short message in a large piece of receive memory keeps the
// whole piece in use, so it is copied, or charged with the size of the piece.
func TestKeptMemoryCounted(t *testing.T) {
	const size, limit = 8 << 10, 1 << 20
	for _, n := range []int{0, 8, 100, 1000, 1100, 4000, size - proto.EagerOnlySize} {
		v := newTarget(t, "MAX_UNEXP_BYTES", "1m")
		l := new(lender)
		h := v.handlers()["eager only"]
		refused := false
		for range limit {
			err := h(nil, eagerOnly(3, make([]byte, n)), &uct.AMDesc{Owner: l, Size: size})
			if err == ucs.InProgress {
				l.lent++
			} else if err != nil {
				refused = true
				break
			}
			if own := v.accounts.Held() - l.lent*size; own < 0 || l.lent*size > limit+size {
				t.Fatalf("%d bytes each: %d pieces of %d bytes are kept, %d bytes counted", n, l.lent, size, v.accounts.Held())
			}
		}
		if !refused {
			t.Errorf("%d bytes each: nothing was refused", n)
		}
		v.tag.dropMessages()
		if v.accounts.Held() != 0 || l.lent != 0 {
			t.Errorf("%d bytes each: %d bytes, %d pieces at the end", n, v.accounts.Held(), l.lent)
		}
	}
}
