package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// stream sends numbered messages from a to b over one endpoint and collects them, for tests
// with a full endpoint.
type stream struct {
	t    *testing.T
	a, b *Host
	ep   uct.Endpoint
	kind *Kind
	size int // bytes of each message
	s    *Sender
	next uint64   // number of the next message
	got  []uint64 // numbers that arrived

	other map[uint64]int // sizes of the messages that differ from size, by number
}

const (
	streamID = 9
	nestID   = 10
)

// maxFill and maxFillMessages bound the bytes and messages that are sent in order to fill an
// endpoint.
const (
	maxFill         = 256 << 20
	maxFillMessages = 1 << 16
)

// newStream opens two hosts, or one for loopback, and connects them.
func newStream(t *testing.T, f *Fixture) *stream {
	t.Helper()
	a, b := f.Pair(t)
	return newStreamBetween(t, a, b)
}

func newStreamBetween(t *testing.T, a, b *Host) *stream {
	t.Helper()
	st := &stream{t: t, a: a, b: b, ep: a.Connect(t, b)}
	attr := a.Iface.Attr()
	kinds := KindsOf(attr)
	st.kind = &kinds[0]
	for i := range kinds { // prefer bcopy, which does not use the buffer after the call
		if kinds[i].Name == "bcopy" {
			st.kind = &kinds[i]
		}
	}
	st.size = min(4096, st.kind.Max(attr))
	st.s = &Sender{T: t, From: a, Endpoint: st.ep, ID: streamID}
	b.Handle(t, streamID, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		n := sequence(data)
		size := st.size
		if other, ok := st.other[n]; ok {
			size = other
		}
		SameBytes(t, "message", data, numbered(n, size))
		st.got = append(st.got, n)
		return nil
	})
	// Wait until the endpoint is connected.
	Accept(t, st.send, a, b)
	st.wait()
	Settle(a, b)
	return st
}

// send sends the next message.
func (st *stream) send() error {
	err := st.sendNumber(st.next)
	if accepted(err) {
		st.next++
	}
	return err
}

// sendOther sends the next message as an operation of kind k, with the largest size of that kind.
func (st *stream) sendOther(s *Sender, k *Kind) error {
	size := k.Max(st.a.Iface.Attr())
	err := s.Send(k, numbered(st.next, size))
	if accepted(err) {
		if st.other == nil {
			st.other = make(map[uint64]int)
		}
		st.other[st.next] = size
		st.next++
	}
	return err
}

func (st *stream) sendNumber(n uint64) error {
	return st.s.Send(st.kind, numbered(n, st.size))
}

// wait progresses until all numbered messages have arrived, and checks their order.
func (st *stream) wait() {
	st.t.Helper()
	Until(st.t, "all messages", func() bool { return uint64(len(st.got)) >= st.next }, st.a, st.b)
	for i, n := range st.got {
		if n != uint64(i) {
			st.t.Fatalf("message %d arrived in place %d", n, i)
		}
	}
	if uint64(len(st.got)) != st.next {
		st.t.Fatalf("%d messages arrived, %d were sent", len(st.got), st.next)
	}
}

// fill sends until the endpoint refuses a message, and reports whether the endpoint has refused
// one.
func (st *stream) fill() bool {
	st.t.Helper()
	for n := 0; n < maxFillMessages && n*st.size < maxFill; n++ {
		switch err := st.send(); {
		case err == ucs.ErrNoResource:
			return true
		case !accepted(err):
			st.t.Fatalf("filling the endpoint: %v", err)
		}
	}
	return false
}

// whenFull runs body while the endpoint refuses to send; body must not progress. A transport
// that delivers inside the send is full only inside nested handlers; body then runs in the
// innermost handler. If the endpoint never refuses, the test fails: a transport without limits
// needs no pending requests.
func (st *stream) whenFull(body func()) {
	st.t.Helper()
	if !st.inline() {
		if !st.fill() {
			st.t.Fatalf("never refuses: took %d messages of %d bytes", st.next, st.size)
		}
		body()
		return
	}
	nest := &Sender{T: st.t, From: st.a, Endpoint: st.ep, ID: nestID}
	depth, ran, full := 0, false, false
	st.b.Handle(st.t, nestID, func(*uct.Source, []byte, *uct.AMDesc) error {
		if ran {
			return nil
		}
		depth++
		before := depth
		if err := nest.Number(st.kind, 0); accepted(err) && depth > before || ran {
			return nil // a deeper handler ran
		}
		ran = true
		if full = st.fill(); full {
			body()
		}
		return nil
	})
	if err := nest.Number(st.kind, 0); !accepted(err) {
		st.t.Fatalf("nesting handlers: %v", err)
	}
	Until(st.t, "the innermost handler", func() bool { return ran }, st.a, st.b)
	if !full {
		st.t.Fatalf("never refuses: took %d messages of %d bytes", st.next, st.size)
	}
}

// inline sends a message and reports whether it was delivered inside the send.
func (st *stream) inline() bool {
	st.t.Helper()
	Accept(st.t, st.send, st.a, st.b)
	return uint64(len(st.got)) == st.next
}

// pend queues a request that sends the next message. If resources have become available in
// between, it fills the endpoint again and returns nil.
func (st *stream) pend() *Pending {
	st.t.Helper()
	n := st.next
	p := NewPending(func() error {
		if err := st.sendNumber(n); !accepted(err) {
			return err
		}
		return nil
	})
	switch err := st.ep.PendingAdd(&p.Pending); err {
	case nil:
		st.next++
		if !p.Queued() {
			st.t.Fatal("Pending.Queued is false for a queued request")
		}
		return p
	case ucs.ErrBusy:
		if !st.fill() {
			st.t.Fatal("the endpoint cannot be kept full")
		}
	default:
		st.t.Fatalf("adding a pending request: %v", err)
	}
	return nil
}

// pendMany queues n requests.
func (st *stream) pendMany(n int) []*Pending {
	st.t.Helper()
	var list []*Pending
	for tries := 0; len(list) < n; tries++ {
		if tries > n+1000 {
			st.t.Fatal("PendingAdd keeps returning ErrBusy for an endpoint that refuses to send")
		}
		if p := st.pend(); p != nil {
			list = append(list, p)
		} else if len(list) > 0 {
			st.t.Fatal("PendingAdd returns ErrBusy while requests wait")
		}
	}
	return list
}
