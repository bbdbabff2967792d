//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var connCloseCases = []testCase{
	{"in good order", anywhere, inBothModes(testConnClose)},
	{"by both sides at once", anywhere, inBothModes(testConnCloseBoth)},
	{"by one side behind the other", anywhere, inBothModes(testConnCloseBehind)},
	{"by force", anywhere, testConnForce},
	{"at any time", anywhere, inBothModes(testConnCloseAnyTime)},
	{"what was sent before arrives", anywhere, inBothModes(testConnCloseDelivers)},
	{"with puts on their way", anywhere, testConnClosePuts},
	{"worker shutdown", anywhere, inBothModes(testConnShutdown)},
	{"in the handlers", anywhere, testConnCloseInside},
	{"a close that waits for a peer that is lost", anywhere, inBothModes(testConnCloseLost)},
	{"again and again", anywhere, inBothModes(testConnComeAndGo)},
}

// connEnds is a connection of which one end is closed first.
type connEnds struct {
	*rig
	c, s          *side
	first, second *ucp.Endpoint
	told          func() int // number of calls of the second end's error handler
}

// eitherFirst runs a test that closes the client's end first, and one that closes the server's.
func eitherFirst(t *testing.T, tr transport, mode ucp.ErrMode, run func(e *connEnds)) {
	for _, server := range []bool{false, true} {
		r := newConnRig(t, tr)
		e := &connEnds{rig: r, c: r.open(), s: r.open()}
		h := e.s.hall(false)
		var f failure
		e.first, e.second = r.joined(e.c, h, ucp.EndpointParams{ErrMode: mode, OnError: f.onError})
		e.told = func() int { return len(h.failures) }
		if server {
			e.first, e.second = e.second, e.first
			e.told = func() int { return f.calls }
		}
		run(e)
		r.endpoints(0, e.c, e.s)
	}
}

// testConnClose checks that a close waits for the other side, whose end fails and is then closed.
func testConnClose(t *testing.T, tr transport, mode ucp.ErrMode) {
	eitherFirst(t, tr, mode, func(e *connEnds) {
		req := e.started(e.first.CloseAsync(&ucp.RequestParams{Flags: ucp.OpNoImmediate}))
		if again, err := e.first.CloseAsync(nil); again != nil || !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("a second close: %v, %v", again, err)
		}
		e.until("the other end's failure", func() bool { return e.second.Err() != nil })
		if !errors.Is(e.second.Err(), ucs.ErrConnectionReset) {
			t.Errorf("the other end: %v", e.second.Err())
		}
		e.must(req, nil) // completes before the other handler is called
		e.until("the other end's handler", func() bool { return e.told() == int(mode) })
		e.must(e.second.CloseAsync(nil))
	})
}

func testConnCloseBoth(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
	one, err := there.CloseAsync(nil)
	two, err2 := back.CloseAsync(nil)
	r.must(one, err)
	r.must(two, err2)
	r.endpoints(0, c, s)
	if len(h.failures) > 0 {
		t.Errorf("handlers were called for ends that were being closed: %v", h.failures)
	}
}

// testConnCloseBehind checks that no failure is reported to an application that closes its end
// after the peer, before the peer's close is reported.
func testConnCloseBehind(t *testing.T, tr transport, mode ucp.ErrMode) {
	eitherFirst(t, tr, mode, func(e *connEnds) {
		req := e.started(e.first.CloseAsync(&ucp.RequestParams{Flags: ucp.OpNoImmediate}))
		e.until("the peer's end", func() bool { return e.second.Err() != nil })
		// Nothing progresses from here to the close, so the time that the application has for its
		// close does not end.
		if _, err := e.second.TagSend(1, make([]byte, 8), nil); !errors.Is(err, ucs.ErrConnectionReset) {
			t.Errorf("a send to a peer that has closed: %v", err)
		}
		e.must(e.second.CloseAsync(nil))
		e.must(req, nil)
		if n := e.told(); n > 0 {
			t.Errorf("%d handlers were called for an end that was closed behind the peer's", n)
		}
	})
}

func testConnForce(t *testing.T, tr transport) {
	eitherFirst(t, tr, ucp.ErrModePeer, func(e *connEnds) {
		send := e.started(e.first.TagSendSync(1, make([]byte, 8), nil))
		other := e.started(e.second.TagSendSync(1, make([]byte, 8), nil))
		e.inTheCall(e.first.CloseAsync(force))
		if err := e.finish(send, nil); !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("a send on what was closed: %v", err)
		}
		if err := e.finish(other, nil); !errors.Is(err, ucs.ErrConnectionReset) {
			t.Errorf("a send to what was closed: %v", err)
		}
		e.inTheCall(e.second.CloseAsync(nil))
	})
}

// anyTime is the number of rounds after the first call up to which tests act; the connection takes
// about twenty.
const anyTime = 30

// anyTimes returns the numbers of rounds after which tests act: all of them, or some of them if the
// transport resembles others.
func (tr transport) anyTimes() (list []int) {
	first, step := 0, 1
	switch {
	case tr.turn != 0 && !needtest.Full:
		first, step = tr.turn%5, 10 // other rounds for each transport
	case tr.name != "tcp" || tr.mode != 0:
		step = 5
	}
	if race.Enabled || testing.Short() {
		step *= 3
	}
	for n := first; n < anyTime; n += step {
		list = append(list, n)
	}
	return list
}

// testConnCloseAnyTime checks that the other side's endpoint ends if either side ends its own, in
// each way, after any number of rounds.
func testConnCloseAnyTime(t *testing.T, tr transport, mode ucp.ErrMode) {
	ways := map[string]func(ep *ucp.Endpoint) (*ucp.Request, error){
		"Close":      func(ep *ucp.Endpoint) (*ucp.Request, error) { return nil, ep.Close() },
		"CloseAsync": func(ep *ucp.Endpoint) (*ucp.Request, error) { return ep.CloseAsync(nil) },
	}
	if mode == ucp.ErrModePeer {
		ways["CloseForce"] = func(ep *ucp.Endpoint) (*ucp.Request, error) { return ep.CloseAsync(force) }
	}
	for name, end := range ways {
		for _, server := range []bool{false, true} {
			r := newConnRig(t, tr)
			c, s := r.open(), r.open()
			h := s.hall(false)
			for _, rounds := range tr.anyTimes() {
				h.eps = nil
				there := c.dial(h, ucp.EndpointParams{ErrMode: mode})
				send := r.started(there.TagSendSync(1, make([]byte, 8), nil))
				for range rounds {
					r.progress()
				}
				if server {
					r.until("the server's end", func() bool { return len(h.eps) > 0 })
				}
				what := fmt.Sprintf("%s, server: %t, after %d rounds", name, server, rounds)
				var recv *ucp.Request
				if name == "CloseAsync" && !server { // waits for the send
					recv = r.started(s.TagRecv(1, ucp.FullMask, make([]byte, 8), &ucp.RequestParams{Flags: ucp.OpNoImmediate}))
				}
				if !server {
					r.must(end(there))
					r.settle() // the server may be notified, or never know of the client
					for _, back := range h.eps {
						r.until("the server's failure: "+what, func() bool { return back.Err() != nil })
						r.must(back.CloseAsync(nil))
					}
				} else {
					r.must(end(h.eps[0]))
					r.until("the client's failure: "+what, func() bool { return there.Err() != nil })
					r.must(there.CloseAsync(nil))
				}
				r.until("the end of a send: "+what, send.Done)
				send.Free()
				r.endpoints(0, c, s)
				if recv != nil {
					s.Cancel(recv)
					if err := r.finish(recv, nil); err != nil && !errors.Is(err, ucs.ErrCanceled) {
						t.Errorf("the receive: %v", err)
					}
				}
				for _, ok := s.TagPeek(1, ucp.FullMask); ok; _, ok = s.TagPeek(1, ucp.FullMask) {
					s.take(1, ucp.FullMask, 8)
				}
			}
		}
	}
}

// testConnCloseDelivers checks that messages whose sends are complete arrive although the sender
// closes, even if they are more than one round of the receiver handles.
func testConnCloseDelivers(t *testing.T, tr transport, mode ucp.ErrMode) {
	const messages = 300
	r := newConnRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
	c, s := r.open(), r.open()
	h := s.hall(false)
	for round := range 4 {
		there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
		from, to, on := there, back, s
		if round%2 > 0 {
			from, to, on = back, there, c
		}
		var reqs []*ucp.Request
		for k := range messages {
			req, err := from.TagSend(1, ucttest.Pattern(k*37%9000, uint64(k)), nil)
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
		}
		r.must(from.CloseAsync(nil))
		r.until("the other end's failure", func() bool { return to.Err() != nil })
		for k := range messages {
			r.must(reqs[k], nil)
			got, ok := on.TagPeek(1, ucp.FullMask)
			if !ok {
				t.Fatalf("%d of %d messages have arrived when the endpoint fails", k, messages)
			}
			b, _ := on.take(1, ucp.FullMask, got.Length)
			ucttest.SameBytes(t, "message", b, ucttest.Pattern(k*37%9000, uint64(k)))
		}
		r.must(to.CloseAsync(nil))
	}
}

// testConnClosePuts checks that a close waits for puts, and that puts take effect even if the peer
// has closed its end.
func testConnClosePuts(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.openOneSided(ucp.WorkerParams{}), r.openOneSided(ucp.WorkerParams{})
	h := s.hall(false)
	for _, late := range []bool{false, true} {
		there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		mem := make([]byte, 4<<20)
		w := r.unpack(there, s.expose(mem, 0))
		src := ucttest.Pattern(len(mem), 9)
		put, err := there.Put(src, w.addr, w.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		var other *ucp.Request
		if late {
			other, err = back.CloseAsync(nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				s.Progress()
			}
		}
		closing, err := there.CloseAsync(nil)
		r.must(put, nil)
		r.must(closing, err)
		ucttest.SameBytes(t, "memory", mem, src)
		if other == nil {
			r.until("the other end's failure", func() bool { return back.Err() != nil })
			other, err = back.CloseAsync(nil)
		}
		r.must(other, err)
	}
}

// testConnShutdown shuts down a worker with connections in every stage.
func testConnShutdown(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, rounds := range tr.anyTimes() {
		r := newConnRig(t, tr)
		c, s := r.open(), r.open()
		h := s.hall(false)
		there, _ := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
		late := c.dial(h, ucp.EndpointParams{ErrMode: mode})
		for range rounds {
			r.progress()
		}
		stop := c.leads()
		if err := s.Worker.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		stop()
		s.close()
		r.sides = r.sides[:1]
		r.until("the failures", func() bool { return there.Err() != nil && late.Err() != nil })
		r.must(there.CloseAsync(nil))
		r.must(late.CloseAsync(nil))
	}
}

// testConnCloseInside closes endpoints in the callbacks that report the connection or the failure.
func testConnCloseInside(t *testing.T, tr transport) {
	for _, end := range []func(ep *ucp.Endpoint){
		func(ep *ucp.Endpoint) { ep.Close() },
		func(ep *ucp.Endpoint) { ep.CloseAsync(nil) },
		func(ep *ucp.Endpoint) { ep.CloseAsync(force) },
	} {
		r := newConnRig(t, tr)
		c, s := r.open(), r.open()
		l, err := s.NewListener(ucp.ListenerParams{Addr: tr.anyPort(t), OnAccept: end})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			var calls int
			there, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: l.Addr(), ErrMode: ucp.ErrModePeer, OnError: func(ep *ucp.Endpoint, _ error, _ any) {
				calls++
				end(ep)
			}})
			if err != nil {
				t.Fatal(err)
			}
			r.until("the client's failure", func() bool { return calls == 1 })
			if there.Err() == nil {
				t.Error("the client has not failed")
			}
			r.until("the ends", func() bool { return c.Stats().Endpoints+s.Stats().Endpoints == 0 })
		}
	}
}

// testConnCloseLost: the peer's worker ends while a close waits for it, with data that the peer no
// longer receives.
func testConnCloseLost(t *testing.T, tr transport, mode ucp.ErrMode) {
	for _, server := range []bool{false, true} {
		for rounds := 0; rounds < 6; rounds += 5 {
			r := newConnRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}, setting{"RNDV_THRESH", "inf"}))
			c, s := r.open(), r.open()
			h := s.hall(false)
			there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
			ep, alive, dead := there, c, s
			if server {
				ep, alive, dead = back, s, c
			}
			r.log.Allow("the peer has probably died")
			send, err := ep.TagSend(1, make([]byte, endless), nil)
			if err != nil {
				t.Fatal(err)
			}
			req := r.started(ep.CloseAsync(nil))
			for range rounds {
				r.progress()
			}
			dead.close()
			r.sides = []*side{alive}
			r.until("the end of the close", req.Done)
			r.until("the end of the send", func() bool { return send == nil || send.Done() })
			req.Free()
			if send != nil {
				send.Free()
			}
			r.endpoints(0, alive)
		}
	}
}

// testConnComeAndGo checks that nothing is left of connections that have ended, in either way.
func testConnComeAndGo(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	for k := range 20 {
		h.eps = nil
		there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
		switch k % 3 {
		case 0:
			r.must(there.CloseAsync(nil))
			r.until("the other end's failure", func() bool { return back.Err() != nil })
			r.must(back.CloseAsync(nil))
		case 1:
			there.Close()
			r.until("the other end's failure", func() bool { return back.Err() != nil })
			back.Close()
		default:
			back.Close()
			r.until("the other end's failure", func() bool { return there.Err() != nil })
			there.Close()
		}
		r.endpoints(0, c, s)
	}
}
