//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var vanishCases = []testCase{
	{"the server's worker", anywhere, inBothModes(testServerVanishes)},
	{"the client's worker", anywhere, inBothModes(testClientVanishes)},
	{"the accepting worker", anywhere, inBothModes(testAccepterVanishes)},
}

// lost are the errors of an endpoint whose peer ends while they connect.
var lost = []ucs.Status{ucs.ErrNotConnected, ucs.ErrConnectionReset, ucs.ErrRejected, ucs.ErrUnreachable, ucs.ErrEndpointTimeout}

// testServerVanishes closes the worker of the server after some rounds. The client fails, in any
// stage.
func testServerVanishes(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
		r.log.Allow("the peer has probably died")
		c, s := r.open(), r.open()
		h := s.hall(false)
		f := new(failure)
		there := c.dial(h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError})
		reqs := []*ucp.Request{
			r.started(there.TagSendSync(1, make([]byte, 8), nil)),
			r.started(there.TagSend(1, make([]byte, 1<<20), nil)),
		}
		for range rounds {
			r.progress()
		}
		s.close()
		r.sides = r.sides[:1]
		r.failsWith(there, f, mode, lost...)
		for _, req := range reqs {
			if err := r.finish(req, nil); !isOneOf(err, lost...) {
				t.Errorf("after %d rounds: %v", rounds, err)
			}
		}
		r.inTheCall(there.CloseAsync(nil))
		r.endpoints(0, c)
	}
}

// testClientVanishes closes the worker of the client after some rounds. The server's endpoint
// fails.
func testClientVanishes(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
		r.log.Allow("the peer has probably died")
		s, c := r.open(), r.open()
		h := s.hall(false)
		c.dial(h, ucp.EndpointParams{ErrMode: mode})
		for range rounds {
			r.progress()
		}
		var req *ucp.Request
		if len(h.eps) > 0 {
			req = r.started(h.eps[0].TagSendSync(1, make([]byte, 8), nil))
		}
		c.close()
		r.sides = r.sides[:1]
		r.settle()
		for _, back := range h.eps {
			r.until("the failure", func() bool { return back.Err() != nil })
			// An orderly end is reported a moment later.
			r.eventually(func() bool { return len(h.failures) >= int(mode) })
			if !isOneOf(back.Err(), lost...) {
				t.Errorf("after %d rounds: %v", rounds, back.Err())
			}
			if told := len(h.failures); told != int(mode) {
				t.Errorf("after %d rounds in mode %d the handler ran %d times", rounds, mode, told)
			}
			r.inTheCall(back.CloseAsync(nil))
		}
		if req != nil {
			if err := r.finish(req, nil); !isOneOf(err, lost...) {
				t.Errorf("after %d rounds: %v", rounds, err)
			}
		}
		r.endpoints(0, s)
		s.close() // its device may stay open until then
		r.sides = nil
	}
}

// testAccepterVanishes closes the worker that has accepted a request, while the listener's worker
// stays open.
func testAccepterVanishes(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
		r.log.Allow("the peer has probably died")
		c, s := r.open(), r.open()
		h, other := s.hall(true), s.onAlso()
		f := new(failure)
		there := c.dial(h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError})
		r.until("a request", func() bool { return len(h.requests) > 0 })
		h.admit(other)
		for range rounds {
			r.progress()
		}
		other.close()
		r.sides = r.sides[1:]
		r.failsWith(there, f, mode, lost...)
		r.inTheCall(there.CloseAsync(nil))
		r.endpoints(0, c, s)
	}
}
