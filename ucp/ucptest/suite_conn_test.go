//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestConnections runs the suite for endpoints that are connected by socket address, over every
// transport with a connection manager.
func TestConnections(t *testing.T) {
	runGroups(t, connTransports, []caseGroup{
		{"connecting", connCases},
		{"listening", listenCases},
		{"closing", connCloseCases},
		{"vanishing", vanishCases},
		{"many", connManyCases},
	})
}

var connCases = []testCase{
	{"exchange", anywhere, inBothModes(testConnExchange)},
	{"sends before the connection stands", anywhere, inBothModes(testConnEarlySends)},
	{"one-sided", anywhere, inBothModes(testConnOneSided)},
	{"a key before the connection stands", anywhere, testConnEarlyKey},
	{"a key that nobody uses", anywhere, testConnUnusedKey},
	{"both ways", anywhere, testConnBothWays},
	{"beside an endpoint by worker address", anywhere, testConnBeside},
	{"questions at any time", anywhere, testConnQuestions},
	{"a worker that flushes", anywhere, testConnWorkerFlush},
	{"sleeping", anywhere, testConnSleeping},
}

// connLengths are lengths for each kind of protocol: short, with copies, fragments, rendezvous.
var connLengths = []int{0, 8, 3000, 60_000, 1 << 20}

// swap sends messages of all lengths in both directions, plain and synchronous.
func (r *rig) swap(there *ucp.Endpoint, b *side, back *ucp.Endpoint, a *side) {
	r.Helper()
	for k, n := range connLengths {
		for _, leg := range []struct {
			ep *ucp.Endpoint
			to *side
		}{{there, b}, {back, a}} {
			for j, send := range []func(ucp.Tag, []byte, *ucp.RequestParams) (*ucp.Request, error){leg.ep.TagSend, leg.ep.TagSendSync} {
				src, buf := ucttest.Pattern(n, uint64(2*k+j)), make([]byte, n)
				recv := leg.to.recvInto(ucp.Tag(k), ucp.FullMask, buf, nil)
				r.must(send(ucp.Tag(k), src, nil))
				r.must(recv, nil)
				ucttest.SameBytes(r, "message", buf, src)
			}
		}
	}
}

func testConnExchange(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
	r.swap(there, s, back, c)
	if len(there.Attr().Transports) == 0 || len(back.Attr().Transports) == 0 {
		t.Errorf("lanes: %v and %v", there.Attr().Transports, back.Attr().Transports)
	}
	if there.Attr().Transports[0] != back.Attr().Transports[0] {
		t.Errorf("the ends send over %v and %v", there.Attr().Transports, back.Attr().Transports)
	}
}

// testConnEarlySends checks that messages that are sent before the connection is established
// arrive, in order.
func testConnEarlySends(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	there := c.dial(h, ucp.EndpointParams{ErrMode: mode})
	send := func(ep *ucp.Endpoint) (reqs []*ucp.Request) {
		for k, n := range connLengths {
			req, err := ep.TagSend(1, ucttest.Pattern(n, uint64(k)), nil)
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
		}
		return reqs
	}
	check := func(on *side, reqs []*ucp.Request) {
		t.Helper()
		for k, n := range connLengths {
			r.arrived(on, 1)
			got, _ := on.take(1, ucp.FullMask, 1<<20)
			ucttest.SameBytes(t, "message", got, ucttest.Pattern(n, uint64(k)))
		}
		for _, req := range reqs {
			r.must(req, nil)
		}
	}
	sent := send(there)
	for _, req := range sent {
		if req == nil || req.Done() {
			t.Error("a send has ended before there is a connection")
		}
	}
	r.until("the server's end", func() bool { return len(h.eps) > 0 })
	answers := send(h.eps[0])
	check(s, sent)
	check(c, answers)
}

func testConnOneSided(t *testing.T, tr transport, mode ucp.ErrMode) {
	r := newConnRig(t, tr)
	c, s := r.openOneSided(ucp.WorkerParams{}), r.openOneSided(ucp.WorkerParams{})
	h := s.hall(false)
	there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: mode})
	for _, leg := range []struct {
		ep *ucp.Endpoint
		at *side
	}{{there, s}, {back, c}} {
		r.tryAccess(leg.ep, leg.at)
	}
}

// tryAccess makes puts, gets and atomic operations in memory of a side.
func (r *rig) tryAccess(ep *ucp.Endpoint, at *side) {
	r.Helper()
	for _, n := range []int{8, 5000, 1 << 20} {
		mem := make([]byte, n)
		w := r.unpack(ep, at.expose(mem, 0))
		src := ucttest.Pattern(n, 1)
		if err := r.access(ep, "put", w, src); err != nil {
			r.Fatal(err)
		}
		ucttest.SameBytes(r, "memory", mem, src)
		got := make([]byte, n)
		if err := r.access(ep, "get", w, got); err != nil {
			r.Fatal(err)
		}
		ucttest.SameBytes(r, "result", got, src)
	}
	mem := word64(41)
	w := r.unpack(ep, at.expose(mem, 0))
	old := make([]byte, 8)
	if err := r.access(ep, "atomic", w, old); err != nil {
		r.Fatal(err)
	}
	if !bytes.Equal(old, word64(41)) || !bytes.Equal(mem, word64(42)) {
		r.Errorf("atomic: %v was there and %v is", old, mem)
	}
}

// testConnEarlyKey unpacks and uses a key before there are lanes.
func testConnEarlyKey(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.openOneSided(ucp.WorkerParams{}), r.openOneSided(ucp.WorkerParams{})
	h := s.hall(false)
	mem := make([]byte, 1<<16)
	m := s.expose(mem, 0)
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	w := r.unpack(there, m)
	if got := w.key.String(); got != "not connected yet" {
		t.Errorf("the key says %q", got)
	}
	if b, err := w.key.Ptr(w.addr, 8); b != nil || !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("a pointer before there are lanes: %v, %v", b, err)
	}
	src, old := ucttest.Pattern(1<<15, 3), make([]byte, 8)
	put, perr := there.Put(src, w.addr, w.key, nil)
	amo, aerr := there.Atomic(ucp.AtomicAdd, word64(7), w.addr+1<<15, w.key, &ucp.RequestParams{ReplyBuffer: old})
	short, serr := there.Put([]byte{1, 2, 3}, w.addr+1<<15+8, w.key, nil)
	got := make([]byte, 100)
	get, gerr := there.Get(got, w.addr+1<<15+100, w.key, nil)
	flush, ferr := there.Flush(nil)
	r.must(put, perr)
	r.must(amo, aerr)
	r.must(short, serr)
	r.must(get, gerr)
	r.must(flush, ferr)
	ucttest.SameBytes(t, "memory", mem[:1<<15], src)
	ucttest.SameBytes(t, "memory", mem[1<<15:1<<15+11], append(word64(7), 1, 2, 3))
	if w.key.String() == "not connected yet" {
		t.Error("the key has no way")
	}
	r.tryAccess(there, s)
}

// testConnUnusedKey closes keys of an endpoint that never gets lanes, before and after the endpoint
// has failed.
func testConnUnusedKey(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.openOneSided(ucp.WorkerParams{}), r.openOneSided(ucp.WorkerParams{})
	h := s.hall(true)
	m := s.expose(make([]byte, 64), 0)
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	first, second, third := r.unpack(there, m), r.unpack(there, m), r.unpack(there, m)
	if err := first.key.Close(); err != nil {
		t.Error(err)
	}
	put := r.started(there.Put(make([]byte, 8), second.addr, second.key, nil))
	r.until("a request", func() bool { return len(h.requests) > 0 })
	if err := h.Reject(h.requests[0]); err != nil {
		t.Error(err)
	}
	if err := r.finish(put, nil); !errors.Is(err, ucs.ErrRejected) {
		t.Errorf("put: %v", err)
	}
	if err := second.key.Close(); err != nil {
		t.Error(err)
	}
	if err := there.Close(); err != nil {
		t.Error(err)
	}
	if got := third.key.String(); got != "not connected yet" {
		t.Errorf("the key says %q", got)
	}
}

// testConnBothWays checks two sides that both listen and connect to each other, several times each.
func testConnBothWays(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	a, b := r.open(), r.open()
	ha, hb := a.hall(false), b.hall(false)
	const pairs = 8
	var there, back []*ucp.Endpoint
	for range pairs {
		there = append(there, a.dial(hb, ucp.EndpointParams{ErrMode: ucp.ErrModePeer}))
		back = append(back, b.dial(ha, ucp.EndpointParams{ErrMode: ucp.ErrModePeer}))
	}
	r.until("all endpoints", func() bool { return len(ha.eps) == pairs && len(hb.eps) == pairs })
	for k := range pairs {
		r.exchange(there[k], b, ha.eps[k], b)
		r.exchange(back[k], a, hb.eps[k], a)
	}
	r.endpoints(2*pairs, a, b)
}

// testConnBeside checks that endpoints by worker address and by socket address between the same
// workers do not affect each other.
func testConnBeside(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	there, back := c.connect(s), s.connect(c)
	h := s.hall(false)
	r.exchange(there, s, back, c)
	for range 3 {
		conn, conned := r.joined(c, h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		r.swap(conn, s, conned, c)
		r.exchange(there, s, back, c)
		r.must(conn.CloseAsync(nil))
		r.until("the other end's failure", func() bool { return conned.Err() != nil })
		r.must(conned.CloseAsync(nil))
	}
	r.swap(there, s, back, c)
	r.endpoints(1, c, s)
}

// testConnQuestions checks that the methods that describe an endpoint work at all times.
func testConnQuestions(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, Name: "caller", UserData: 5})
	ask := func(ep *ucp.Endpoint) {
		_ = ep.Explain().String()
		ep.LocalAddr()
		ep.RemoteAddr()
		if err := ep.WriteInfo(io.Discard); err != nil {
			t.Error(err)
		}
		if ep.Attr().Name == "" {
			t.Error("an endpoint has no name")
		}
		c.Peers()
		s.Peers()
	}
	ask(there)
	if got := there.Explain().String(); !strings.Contains(got, "not connected") {
		t.Errorf("an endpoint that is not connected says %q", got)
	}
	sent := r.started(there.TagSendSync(1, nil, nil))
	s.recvInto(1, ucp.FullMask, nil, nil)
	for !sent.Done() {
		c.Progress()
		ask(there)
		s.Progress()
		for _, ep := range h.eps {
			ask(ep)
		}
	}
	if a := there.Attr(); a.Name != "caller" || a.UserData != 5 || !a.Peer.Local {
		t.Errorf("the endpoint is %+v", a)
	}
	if e := there.Explain(); len(e.Lanes) == 0 || len(e.Protocols) == 0 {
		t.Errorf("explanation: %v", e)
	} else if all := !slices.Contains(tr.settings, oneDevice); all && (len(e.Searches) == 0 || e.Peer != s.Worker.Attr().UID) {
		t.Errorf("explanation without reasons: %v", e)
	}
	r.must(there.CloseAsync(nil))
	ask(there)
	r.until("the other end's failure", func() bool { return h.eps[0].Err() != nil })
	ask(h.eps[0])
}

// testConnWorkerFlush checks that a flush closes nothing, even if it reuses the request object of a
// close.
func testConnWorkerFlush(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	for k := range 3 {
		gone, other := r.joined(c, h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		r.must(gone.CloseAsync(nil))
		r.until("the other end's failure", func() bool { return other.Err() != nil })
		for range 20 {
			r.must(c.Flush(nil))
			r.must(there.Flush(nil))
		}
		r.settle()
		if there.Err() != nil || back.Err() != nil {
			t.Fatalf("round %d: a flush has ended the connection: %v, %v", k, there.Err(), back.Err())
		}
		r.exchange(there, s, back, c)
	}
}

// testConnSleeping checks that a worker that sleeps on its descriptor whenever it can is woken for
// everything: the connection, messages, and the end.
func testConnSleeping(t *testing.T, tr transport) {
	r := newConnRig(t, tr)
	c, s := r.open(), r.open()
	h := s.hall(false)
	var f failure
	there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	awake := func(what string, cond func() bool) {
		t.Helper()
		for asleep := 0; asleep < waitRounds; {
			if cond() {
				return
			}
			idle := true
			for _, w := range []*side{c, s} {
				if w.Arm() == nil && !readable(t, w.fd, 0) {
					continue // this worker would sleep
				}
				idle = false
				w.Progress()
			}
			if idle {
				asleep++
				r.sleep(1)
			}
		}
		t.Fatalf("both sleep, still waiting for: %s", what)
	}
	recv := s.recvInto(1, ucp.FullMask, nil, nil)
	send := r.started(there.TagSendSync(1, nil, nil))
	awake("a message", func() bool { return send.Done() && recv.Done() })
	if req, err := h.eps[0].CloseAsync(nil); err != nil {
		t.Fatal(err)
	} else if req != nil {
		awake("the failure", func() bool { return f.calls == 1 })
		if req, err := there.CloseAsync(nil); req != nil || err != nil {
			t.Errorf("close: %v, %v", req, err)
		}
		awake("the close", req.Done)
		req.Free()
	}
	recv.Free()
	send.Free()
}
