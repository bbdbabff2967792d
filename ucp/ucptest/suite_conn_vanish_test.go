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

// lost is what an endpoint may fail with whose peer goes while they connect.
var lost = []ucs.Status{ucs.ErrNotConnected, ucs.ErrConnectionReset, ucs.ErrRejected, ucs.ErrUnreachable, ucs.ErrEndpointTimeout}

// testServerVanishes: the worker of the server is closed after some rounds. The client
// fails, whatever it waits for.
func testServerVanishes(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
		r.log.Allow("it must have died in between")
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

// testClientVanishes: the same of the client's.
func testClientVanishes(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
		r.log.Allow("it must have died in between")
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
			r.eventually(func() bool { return len(h.failures) >= int(mode) }) // an orderly end is told a moment later
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
		s.close() // with a device, maybe, that stays open as long as there is a worker
		r.sides = nil
	}
}

// testAccepterVanishes: the worker that has accepted goes, and that of the listener stays.
func testAccepterVanishes(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
		r.log.Allow("it must have died in between")
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
