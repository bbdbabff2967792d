//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Subtle rules of streams, over every transport.

// everywhere runs a test over all transports.
func everywhere(t *testing.T, run func(t *testing.T, tr transport)) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) { run(t, tr) })
	}
}

// TestSubtlety18StreamOfNothing checks that a send of no bytes succeeds, delivers nothing and
// completes no receive, and that a receive of no bytes completes in its call.
func TestSubtlety18StreamOfNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, tr transport) {
		s := newRig(t, tr).streams()
		buf := make([]byte, 8)
		req := s.posted(s.ba.StreamRecv(buf, nil))
		d := newSlices()
		for _, p := range []*ucp.RequestParams{
			nil, {Flags: ucp.OpForceImmediate}, {Buffer: ucp.IOV(nil, nil)}, {Buffer: ucp.Generic(d.dt, []byte(nil), 0)},
		} {
			s.inTheCall(s.ab.StreamSend(nil, p))
		}
		var o outcome
		s.must(s.ab.StreamSend(nil, &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.onSend}))
		o.once(t)
		s.settle()
		if req.Done() || len(s.poll(1)) != 0 {
			t.Error("nothing has arrived")
		}
		if n, req, err := s.ba.StreamRecv(nil, nil); n != 0 || req != nil || err != nil {
			t.Errorf("a receive of nothing: %d, %v, %v", n, req, err)
		}
		s.send(8)
		s.got(0, req, nil)
		s.check("bytes", buf)
		if d.started != d.finished {
			t.Errorf("%d states started, %d finished", d.started, d.finished)
		}
	})
}

// TestSubtlety30PartialElementsStay checks that a receive gets whole elements only, that a part of
// an element stays in the stream, and that StreamRecvData returns exactly these bytes.
func TestSubtlety30PartialElementsStay(t *testing.T) {
	needtest.Goroutines(t)
	everywhere(t, func(t *testing.T, tr transport) {
		for _, posted := range []bool{false, true} {
			s := newRig(t, tr).streams()
			buf := make([]byte, 80)
			p := &ucp.RequestParams{Buffer: ucp.Elements(buf, 8)}
			var req *ucp.Request
			n := 0
			if posted {
				req = s.posted(s.ba.StreamRecv(nil, p))
				s.send(20)
			} else {
				s.send(20)
				s.arrives(20)
				var err error
				if n, req, err = s.ba.StreamRecv(nil, p); err != nil {
					t.Fatal(err)
				}
			}
			if n = s.got(n, req, nil); n != 16 {
				t.Fatalf("posted %v: %d bytes of 20, want two elements of 8", posted, n)
			}
			s.check("two elements", buf[:16])
			// A part of an element does not complete a receive, and is not lost.
			n, req, err := s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Elements(buf, 8), Flags: ucp.OpForceImmediate})
			if n != 0 || req != nil || !errors.Is(err, ucs.ErrNoResource) {
				t.Fatalf("part of an element: %d, %v, %v", n, req, err)
			}
			d, err := s.ba.StreamRecvData()
			if err != nil || len(d.Bytes()) != 4 {
				t.Fatalf("the rest: %v, %v", d.Bytes(), err)
			}
			s.check("the rest", d.Bytes())
			d.Release()

			// A posted receive waits for the rest of an element.
			req = s.posted(s.ba.StreamRecv(nil, p))
			for range 7 {
				s.send(1)
			}
			s.settle()
			if req.Done() {
				t.Fatal("done with 7 bytes of 8")
			}
			s.send(10)
			if n := s.got(0, req, nil); n%8 != 0 {
				t.Fatalf("%d bytes are no elements", n)
			} else {
				s.check("elements", buf[:n])
			}
			for s.read < s.sent {
				s.recv(make([]byte, 3), nil)
			}
			if _, _, err := s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Elements(buf[:20], 8)}); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("a buffer of no whole elements: %v", err)
			}
		}
	})
}

// TestSubtlety31EarlyData checks that data that arrives before a receive, or even before the
// application has created its endpoint, is kept, and that polls list the endpoint until all of it
// is read.
func TestSubtlety31EarlyData(t *testing.T) {
	needtest.Goroutines(t)
	everywhere(t, func(t *testing.T, tr transport) {
		if tr.loopback {
			t.Skip("there is no other end")
		}
		r := newRig(t, tr)
		s := &streams{rig: r, a: r.streamSide(), b: r.streamSide()}
		s.ab = s.a.connect(s.b)
		s.send(10)
		s.send0(30_000)
		s.settle()
		if len(s.poll(1)) != 0 {
			t.Fatal("an endpoint is listed that the application does not have")
		}
		if n := s.b.Stats().UnexpectedBytes; n < 30_000 {
			t.Fatalf("%d bytes are kept", n)
		}
		s.ba = s.b.connectWith(s.a, ucp.EndpointParams{UserData: "mine"})
		for s.read < s.sent {
			list := s.poll(4)
			if len(list) != 1 || list[0].Endpoint != s.ba || list[0].UserData != "mine" {
				t.Fatalf("%d of %d bytes are read, and listed is %+v", s.read, s.sent, list)
			}
			s.recv(make([]byte, 3001), nil)
		}
		if len(s.poll(1)) != 0 {
			t.Error("listed without anything to read")
		}
		s.ba.SetUserData("other")
		s.send(1)
		s.ready()
		if list := s.poll(1); list[0].UserData != "other" {
			t.Errorf("listed with %v", list[0].UserData)
		}
	})
}

// TestSubtlety32PollInTurns checks that a poll lists each endpoint once, up to the number
// requested, and that the next poll continues with the others.
func TestSubtlety32PollInTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, tr transport) {
		s := newRig(t, tr).streams()
		const n = 5
		all := []*ucp.Endpoint{s.ba}
		senders := []*ucp.Endpoint{s.ab}
		for len(all) < n {
			p := ucp.EndpointParams{}
			ab := s.a.connectWith(s.b, p)
			senders = append(senders, ab)
			if tr.loopback {
				all = append(all, ab)
			} else {
				all = append(all, s.b.connect(s.a))
			}
		}
		for _, ep := range senders {
			s.must(ep.StreamSend([]byte("some"), nil))
		}
		s.until("all streams", func() bool { return len(s.poll(n+1)) == n })
		if len(s.poll(0)) != 0 {
			t.Error("more than there is room for")
		}
		for _, room := range []int{1, 2, 3, n, n + 3} {
			seen := make(map[*ucp.Endpoint]int)
			for range n {
				list := s.poll(room)
				if len(list) != min(room, n) {
					t.Fatalf("%d of %d listed", len(list), room)
				}
				once := make(map[*ucp.Endpoint]bool)
				for _, e := range list {
					if once[e.Endpoint] || !slices.Contains(all, e.Endpoint) {
						t.Fatalf("listed twice, or by mistake: %v", list)
					}
					once[e.Endpoint] = true
					seen[e.Endpoint]++
				}
			}
			for _, ep := range all {
				if seen[ep] != min(room, n) {
					t.Fatalf("with room for %d: %v", room, seen)
				}
			}
		}
		// An endpoint whose data was read, and a closed one, are no longer listed.
		if n, err := s.ba.StreamRecvWait(t.Context(), make([]byte, 9)); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		all[1].Close()
		if list := s.poll(n); len(list) != n-2 {
			t.Errorf("%d are listed", len(list))
		}
	})
}

// TestSubtlety33StreamsOfTheirOwn checks that two endpoints to one worker have separate streams,
// and that endpoints of a worker to itself without loopback are connected in pairs.
func TestSubtlety33StreamsOfTheirOwn(t *testing.T) {
	needtest.Goroutines(t)
	everywhere(t, func(t *testing.T, tr transport) {
		exchange := func(s *streams, from, to [2]*ucp.Endpoint) {
			t.Helper()
			for i, ep := range from {
				s.must(ep.StreamSend([]byte(fmt.Sprintf("stream %d", i)), nil))
			}
			for i, ep := range to {
				buf := make([]byte, 8)
				if n := s.got(ep.StreamRecv(buf, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll})); string(buf[:n]) != fmt.Sprintf("stream %d", i) {
					t.Errorf("stream %d: %q", i, buf[:n])
				}
			}
			s.settle()
			if len(s.poll(1)) != 0 {
				t.Error("something else has come")
			}
		}
		if !tr.loopback {
			s := newRig(t, tr).streams()
			there, back := [2]*ucp.Endpoint{s.ab, s.a.connect(s.b)}, [2]*ucp.Endpoint{s.ba, s.b.connect(s.a)}
			exchange(s, there, back)
			exchange(s, back, there)
		}
		r := newRig(t, tr)
		w := r.streamSide()
		s := &streams{rig: r, a: w, b: w}
		p := ucp.EndpointParams{Flags: ucp.EndpointNoLoopback}
		e1, e2 := w.connectWith(w, p), w.connectWith(w, p)
		exchange(s, [2]*ucp.Endpoint{e1, e2}, [2]*ucp.Endpoint{e2, e1})
	})
}

// TestSubtlety34StreamLoopsBack checks that an endpoint to the own worker receives what it sends.
func TestSubtlety34StreamLoopsBack(t *testing.T) {
	everywhere(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		w := r.streamSide()
		ep := w.connect(w)
		s := &streams{rig: r, a: w, b: w, ab: ep, ba: ep}
		for _, n := range streamLengths {
			s.send0(n)
		}
		for s.read < s.sent {
			s.recv(make([]byte, 10_000), nil)
		}
		ep2 := w.connect(w) // another endpoint has its own stream
		s.send(8)
		s.ready()
		if n, req, err := ep2.StreamRecv(make([]byte, 8), &ucp.RequestParams{Flags: ucp.OpForceImmediate}); n != 0 || req != nil || !errors.Is(err, ucs.ErrNoResource) {
			t.Errorf("on another endpoint: %d, %v, %v", n, req, err)
		}
	})
}
