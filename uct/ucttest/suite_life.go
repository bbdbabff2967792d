package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testClose closes endpoints: idle, used, twice, and from inside a handler. Messages that were
// done before the close still arrive.
func testClose(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	other := newStreamBetween(t, st.a, st.b)
	st.b.Handle(t, streamID, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		other.got = append(other.got, sequence(data))
		return nil
	})
	other.got = nil
	Accept(t, other.send, st.a, st.b)
	c := NewCompletion(1)
	err := Accept(t, func() error { return other.ep.Flush(uct.FlushLocal, &c.Completion) }, st.a, st.b)
	c.Finish(t, err, st.a, st.b)
	other.ep.Close()
	other.ep.Close()
	Until(t, "the message sent before closing", func() bool { return len(other.got) == 1 }, st.a, st.b)
	wantRefused(t, other, "closed")
	other.ep.PendingPurge(func(*uct.Pending) { t.Error("purged a request of a closed endpoint") })

	idle := st.a.Connect(t, st.b)
	idle.Close()
	idle.Close()

	// Close from inside a handler, which may run inside a send of the endpoint.
	closed := false
	st.b.Handle(t, streamID, func(*uct.Source, []byte, *uct.AMDesc) error {
		st.ep.Close()
		closed = true
		return nil
	})
	Accept(t, st.send, st.a, st.b)
	Until(t, "the handler that closes", func() bool { return closed }, st.a, st.b)
	wantRefused(t, st, "closed")

	// The iface still works.
	fresh := newStreamBetween(t, st.a, st.b)
	Accept(t, fresh.send, st.a, st.b)
	fresh.wait()
	for _, h := range []*Host{st.a, st.b} {
		for _, e := range h.Failures {
			t.Errorf("closing was reported as a failure: %v", e.Err)
		}
	}
}

// testCloseInFlight closes an endpoint with operations in flight, and checks that each ends
// with ucs.ErrCanceled, once.
func testCloseInFlight(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	list := st.launch()
	if len(list) == 0 {
		t.Skip("all operations are done when they return")
	}
	st.ep.Close()
	wantCanceled(t, list, st.a, st.b)
	fresh := newStreamBetween(t, st.a, st.b)
	Accept(t, fresh.send, st.a, st.b)
	fresh.wait()
}

// testPeerGone closes the peer's iface of a connected endpoint. The failure is reported once,
// after the operations in flight have ended. Then the endpoint accepts nothing more.
func testPeerGone(t *testing.T, f *Fixture) {
	if f.Loopback {
		t.Skip("the transport is loopback only")
	}
	a, b := f.Open(t), f.Open(t)
	st := newStreamBetween(t, a, b)
	ep, back := a.connectPair(t, b, "user data")
	st.ep, st.s.Endpoint = ep, ep
	Accept(t, st.send, a, b)
	st.wait()
	Settle(a, b)

	// Another peer is not affected.
	c := f.Open(t)
	other := newStreamBetween(t, a, c)

	list := st.launch()
	b.Close(t)
	Until(t, "the failure to be reported", func() bool {
		if a.Failed(ep) == nil {
			st.send() // may detect the failure
			if back != nil {
				ask(t, a, ep)
			}
		}
		return a.Failed(ep) != nil
	}, a, c)
	Settle(a)
	reports := 0
	for _, e := range a.Failures {
		if e.Endpoint == ep {
			reports++
			if e.UserData != "user data" || e.Err == nil {
				t.Errorf("failure reported with data %v and error %v", e.UserData, e.Err)
			}
		}
	}
	if reports != 1 {
		t.Errorf("failure reported %d times", reports)
	}
	for i, op := range list {
		if op.Fired != 1 {
			t.Errorf("operation %d of %d: notified %d times", i, len(list), op.Fired)
		}
	}
	wantRefused(t, st, "failed")
	ep.PendingPurge(func(*uct.Pending) {})
	ep.Close()
	Accept(t, other.send, a, c)
	other.wait()
}

// testManyEndpoints opens many endpoints between two hosts, uses all of them, closes every
// second one and uses the others.
func testManyEndpoints(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	const many = 64
	n := min(many, a.Iface.Attr().MaxEndpoints, Files()/16)
	k := &KindsOf(a.Iface.Attr())[0]
	got := b.Collect(t, 1)
	var list []*Sender
	for range n {
		list = append(list, &Sender{T: t, From: a, Endpoint: a.Connect(t, b), ID: 1})
	}
	send := func(i int, seq uint64) {
		Accept(t, func() error { return list[i].Number(k, seq<<32|uint64(i)) }, a, b)
	}
	for seq := range uint64(3) {
		for i := range list {
			send(i, seq)
		}
	}
	got.Wait(t, 3*n, a, b)
	for i := 0; i < n; i += 2 {
		list[i].Endpoint.Close()
	}
	for i := 1; i < n; i += 2 {
		send(i, 3)
	}
	got.Wait(t, 3*n+n/2, a, b)
	next := make([]uint64, n)
	for _, m := range got.Take() {
		v := sequence(m.Data)
		i, seq := v&0xffffffff, v>>32
		if i >= uint64(n) || next[i] != seq {
			t.Fatalf("endpoint %d: message %d arrived, want %d", i, seq, next[i])
		}
		next[i]++
	}
}

// testTwoWorkers uses two pairs of hosts at the same time, and, except for loopback transports,
// endpoints between the pairs.
func testTwoWorkers(t *testing.T, f *Fixture) {
	a1, b1 := f.Pair(t)
	a2, b2 := f.Pair(t)
	all := []*Host{a1, b1, a2, b2}
	pairs := [][2]*Host{{a1, b1}, {a2, b2}}
	if !f.Loopback {
		pairs = append(pairs, [2]*Host{a1, b2}, [2]*Host{b1, a2})
	}
	var streams []*stream
	arrived := make(map[*Host]map[uint64]int)
	for i, p := range pairs {
		if arrived[p[1]] == nil {
			arrived[p[1]] = make(map[uint64]int)
		}
		at := arrived[p[1]]
		st := &stream{t: t, a: p[0], b: p[1], ep: p[0].Connect(t, p[1])}
		st.kind = &KindsOf(p[0].Iface.Attr())[0]
		st.s = &Sender{T: t, From: p[0], Endpoint: st.ep, ID: streamID}
		st.next = uint64(i) << 32
		p[1].Handle(t, streamID, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			at[sequence(data)]++
			return nil
		})
		streams = append(streams, st)
	}
	const count = 50
	for range count {
		for _, st := range streams {
			Accept(t, func() error {
				err := st.s.Number(st.kind, st.next)
				if accepted(err) {
					st.next++
				}
				return err
			}, all...)
		}
	}
	total := func() int {
		n := 0
		for _, at := range arrived {
			n += len(at)
		}
		return n
	}
	Until(t, "all messages", func() bool { return total() == count*len(streams) }, all...)
	for i, st := range streams {
		for n := range uint64(count) {
			if got := arrived[st.b][uint64(i)<<32|n]; got != 1 {
				t.Fatalf("pair %d: message %d arrived %d times", i, n, got)
			}
		}
	}
	// Closing one pair does not affect the other.
	a1.Close(t)
	if b1 != a1 {
		b1.Close(t)
	}
	st := streams[1]
	Accept(t, func() error { return st.s.Number(st.kind, st.next) }, a2, b2)
	Until(t, "a message after closing", func() bool { return arrived[b2][st.next] == 1 }, a2, b2)
}

// testArmIdle arms idle workers. For a transport without an event descriptor it also arms a
// worker that has messages to deliver.
func testArmIdle(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	Settle(a, b)
	for _, h := range []*Host{a, b} {
		Until(t, "an idle worker to be armed", func() bool { return h.Worker.Arm() == nil }, a, b)
	}
	attr := a.Iface.Attr()
	if attr.Events&uct.EventFD != 0 || attr.Flags&anyAM == 0 {
		return
	}
	st := newStreamBetween(t, a, b)
	waiting := func() {
		if uint64(len(st.got)) < st.next {
			WantStatus(t, "arming with messages to deliver", b.Worker.Arm(), ucs.ErrBusy)
		}
	}
	if st.inline() {
		st.whenFull(waiting)
	} else {
		waiting()
	}
	st.wait()
	Until(t, "the worker to be armed again", func() bool { return b.Worker.Arm() == nil }, a, b)
}
