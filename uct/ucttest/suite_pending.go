package ucttest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testRefusal fills an endpoint, and checks that a message of any kind is refused without effect,
// and that all accepted messages arrive. The system may accept a message if buffers have become
// free in between, but not any number of messages.
func testRefusal(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	attr := st.a.Iface.Attr()
	st.whenFull(func() {
		for _, k := range KindsOf(attr) {
			const tries = 200
			for n := 1; ; n++ {
				s := *st.s
				s.Completion = NewCompletion(1)
				// Send checks that nothing was packed.
				err := st.sendOther(&s, &k)
				if err == ucs.ErrNoResource && s.Completion.Fired == 0 {
					break
				}
				if !accepted(err) {
					t.Errorf("%s on a full endpoint: %v, completed %d times", k.Name, err, s.Completion.Fired)
					break
				}
				if n == tries {
					t.Errorf("%s is accepted by an endpoint that has just refused another message, %d times", k.Name, n)
					break
				}
				if !st.fill() {
					t.Fatalf("never refuses any more: took %d messages", st.next)
				}
			}
		}
	})
	st.wait()
	Accept(t, st.send, st.a, st.b)
	st.wait()
}

// testPendingOrder queues requests on a full endpoint, and checks that nothing overtakes them
// while they wait and that they are sent in order.
func testPendingOrder(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	var list []*Pending
	st.whenFull(func() {
		list = st.pendMany(20)
		for i := range KindsOf(st.a.Iface.Attr()) {
			k := &KindsOf(st.a.Iface.Attr())[i]
			s := *st.s
			if err := s.Number(k, 1<<40); err != ucs.ErrNoResource {
				t.Errorf("%s while requests wait: %v, want %v", k.Name, err, ucs.ErrNoResource)
			}
		}
		if err := st.ep.Flush(uct.FlushLocal, nil); err != ucs.ErrNoResource {
			t.Errorf("flush while requests wait: %v, want %v", err, ucs.ErrNoResource)
		}
	})
	st.wait()
	for i, p := range list {
		if p.Queued() || p.Calls == 0 {
			t.Errorf("request %d: queued %v, dispatched %d times", i, p.Queued(), p.Calls)
		}
	}
	Accept(t, st.send, st.a, st.b)
	st.wait()
}

// testPendingDispatch checks the effects of the results of Dispatch.
func testPendingDispatch(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	var log []string
	var list []*Pending
	// scripted queues a request whose calls of Dispatch return the entries of script. Each call
	// sends one message, except a call that returns ErrNoMessage, which means no progress.
	scripted := func(name string, script ...error) {
		first := st.next
		st.next += uint64(len(script) - count(script, ucs.ErrNoMessage))
		p := NewPending(func() error {
			step := script[0]
			log = append(log, name)
			if step != ucs.ErrNoMessage {
				if err := st.sendNumber(first); !accepted(err) {
					log = log[:len(log)-1]
					return err
				}
				first++
			}
			script = script[1:]
			return step
		})
		if err := st.ep.PendingAdd(&p.Pending); err != nil {
			t.Fatalf("adding a pending request behind others: %v", err)
		}
		list = append(list, p)
	}
	st.whenFull(func() {
		list = st.pendMany(1)
		scripted("a", ucs.InProgress, ucs.InProgress, nil)
		scripted("b", ucs.ErrNoMessage, ucs.ErrNoMessage, nil)
		scripted("c", nil)
	})
	st.wait()
	want := []string{"a", "a", "a", "b", "b", "b", "c"}
	if !slices.Equal(log, want) {
		t.Errorf("dispatched %v, want %v", log, want)
	}
	for i, p := range list {
		if p.Queued() {
			t.Errorf("request %d is still queued", i)
		}
	}
}

func count(list []error, what error) int {
	n := 0
	for _, e := range list {
		if e == what {
			n++
		}
	}
	return n
}

// testPendingPurge purges queued requests: each is passed to the function once, in order, and
// is not dispatched any more.
func testPendingPurge(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	var list []*Pending
	var purged []*uct.Pending
	var kept uint64
	st.whenFull(func() {
		kept = st.next
		list = st.pendMany(10)
		st.ep.PendingPurge(func(p *uct.Pending) { purged = append(purged, p) })
		st.ep.PendingPurge(func(*uct.Pending) { t.Error("purged twice") })
		for i, p := range list {
			if i >= len(purged) || purged[i] != &p.Pending || p.Queued() {
				t.Errorf("request %d: %d purged, still queued %v", i, len(purged), p.Queued())
			}
		}
	})
	sent := st.next - uint64(len(list))
	if sent < kept {
		t.Fatalf("%d messages sent, %d before", sent, kept)
	}
	st.next = sent
	st.wait()
	Settle(st.a, st.b)
	for i, p := range list {
		if p.Calls != 0 {
			t.Errorf("request %d was dispatched %d times after the purge", i, p.Calls)
		}
	}
	Accept(t, st.send, st.a, st.b)
	st.wait()
}

// testPendingBusy checks that PendingAdd queues nothing while sending is possible.
func testPendingBusy(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	p := NewPending(func() error { return nil })
	WantStatus(t, "pending on an endpoint that can send", st.ep.PendingAdd(&p.Pending), ucs.ErrBusy)
	if p.Queued() {
		t.Error("Pending.Queued is true for a refused request")
	}
	st.ep.PendingPurge(func(*uct.Pending) { t.Error("purged a request that was not queued") })
	Settle(st.a, st.b)
	if p.Calls != 0 {
		t.Error("a refused request was dispatched")
	}
	Accept(t, st.send, st.a, st.b)
	st.wait()
}
