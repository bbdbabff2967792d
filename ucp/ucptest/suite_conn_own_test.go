//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestConnectionsWithin checks connections by socket address whose ends belong to one worker, or to
// two workers of one context.
func TestConnectionsWithin(t *testing.T) {
	list := slices.Clone(connTransports)
	self := transport{name: "tcp and self", settings: []setting{{"TLS", "tcp,self"}, {"NET_DEVICES", "lo"}}}
	one := self.with(oneDevice)
	one.name += ", one device"
	for i, tr := range append(list, self, one, self.shared()) {
		tr.turn = 0
		t.Run(tr.name, func(t *testing.T) {
			runCase(t, testCase{"one worker", anywhere, inBothModes(testConnOwn)}, i, tr)
			runCase(t, testCase{"two workers", anywhere, inBothModes(testConnFellow)}, i, tr)
			runCase(t, testCase{"many of one worker", anywhere, inBothModes(testConnOwnMany)}, i, tr)
		})
	}
}

// ownFeatures are the features for all kinds of communication.
const ownFeatures = oneSided | ucp.FeatureAM | ucp.FeatureStream

func testConnOwn(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, closer := range []string{"client", "server", "both"} {
		r := newConnRig(t, tr)
		s := r.openWith(ucp.ContextParams{Features: ownFeatures}, ucp.WorkerParams{})
		r.useWithin(s, s, mode, closer)
	}
}

func testConnFellow(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, closer := range []string{"client", "server", "both"} {
		r := newConnRig(t, tr)
		s := r.openWith(ucp.ContextParams{Features: ownFeatures}, ucp.WorkerParams{})
		r.useWithin(s.onAlso(), s, mode, closer)
	}
}

// useWithin connects c with s, communicates in all ways in both directions, and closes the
// connection from one end or both.
func (r *rig) useWithin(c, s *side, mode ucp.ErrMode, closer string) {
	r.Helper()
	h := s.hall(false)
	var f failure
	there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError})
	r.swap(there, s, back, c)
	sinks := map[*side]*amSink{c: c.sink(1)}
	if s != c {
		sinks[s] = s.sink(1)
	}
	for _, leg := range []struct {
		from, to *side
		ep, back *ucp.Endpoint
	}{{c, s, there, back}, {s, c, back, there}} {
		for k, n := range []int{4, 300 << 10} {
			src := ucttest.Pattern(n, uint64(n))
			sink := sinks[leg.to]
			next := len(sink.got)
			r.must(leg.ep.AMSend(1, []byte("head"), src, nil))
			ucttest.SameBytes(r, "active message", sink.next(next).data, src)

			buf := make([]byte, n)
			sent, err := leg.ep.StreamSend(src, nil)
			for have := 0; have < n; {
				m, req, err := leg.back.StreamRecv(buf[have:], nil)
				if err != nil {
					r.Fatal(err)
				}
				if req != nil {
					r.until("stream data", req.Done)
					if m, err = req.RecvLength(); err != nil {
						r.Fatal(err)
					}
					req.Free()
				}
				have += m
			}
			r.must(sent, err)
			ucttest.SameBytes(r, "stream", buf, src)

			mem := make([]byte, n)
			w := r.unpack(leg.ep, leg.to.expose(mem, 0))
			for _, kind := range []string{"put", "get"} {
				local := slices.Clone(src)
				if err := r.access(leg.ep, kind, w, local); err != nil {
					r.Fatal(err)
				}
				r.must(leg.ep.Flush(nil))
				ucttest.SameBytes(r, fmt.Sprintf("%s %d", kind, k), mem, local)
			}
		}
	}
	if there.Err() != nil || back.Err() != nil {
		r.Fatalf("the ends: %v, %v", there.Err(), back.Err())
	}
	var requests []*ucp.Request
	end := func(ep *ucp.Endpoint) {
		req, err := ep.CloseAsync(nil)
		if err != nil {
			r.Fatal(err)
		}
		requests = append(requests, req)
	}
	if closer != "server" {
		end(there)
	}
	if closer != "client" {
		end(back)
	}
	if closer != "both" {
		second := back
		if closer == "server" {
			second = there
		}
		r.until("the end of the other side", func() bool { return second.Err() != nil })
		end(second)
	}
	for _, req := range requests {
		r.must(req, nil)
	}
	r.endpoints(0, c, s)
}

// testConnOwnMany checks that several connections of a worker to its own listener are not confused,
// whatever the order in which they are made, used and closed.
func testConnOwnMany(t *testing.T, tr transport, mode ucp.ErrMode) {
	const many = 8
	r := newConnRig(t, tr)
	s := r.openWith(ucp.ContextParams{Features: ownFeatures}, ucp.WorkerParams{})
	h := s.hall(false)
	var clients []*ucp.Endpoint
	for range many {
		clients = append(clients, s.dial(h, ucp.EndpointParams{ErrMode: mode}))
	}
	r.until("the accepted ends", func() bool { return len(h.eps) == many })
	for round := range 2 {
		for k, ep := range clients {
			if round == 1 && k%2 == 0 {
				continue
			}
			tag := ucp.Tag(k + 1)
			src := ucttest.Pattern(300<<10, uint64(k))
			buf := make([]byte, len(src))
			recv := s.recvInto(tag, ucp.FullMask, buf, nil)
			r.must(ep.TagSendSync(tag, src, nil))
			r.must(recv, nil)
			ucttest.SameBytes(t, "message", buf, src)
		}
		if round == 0 {
			for k := 0; k < many; k += 2 {
				r.must(clients[k].CloseAsync(nil))
			}
			r.until("the ends of those that were closed", func() bool {
				n := 0
				for _, ep := range h.eps {
					if errors.Is(ep.Err(), ucs.ErrConnectionReset) {
						n++
					}
				}
				return n == many/2
			})
		}
	}
	for _, ep := range append(slices.Clone(h.eps), clients[1], clients[3], clients[5], clients[7]) {
		req, err := ep.CloseAsync(nil)
		if err != nil {
			t.Fatal(err)
		}
		r.finish(req, nil)
	}
	r.endpoints(0, s)
}
