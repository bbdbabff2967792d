package ucttest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testRefusal fills an endpoint and goes on with each kind until that is refused too,
// as some take more room than others: the refused message leaves no trace, and all
// that was accepted arrives.
func testRefusal(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	attr := st.a.Iface.Attr()
	const probeID = 11
	sent, arrived := 0, 0
	st.b.Handle(t, probeID, func(*uct.Source, []byte, *uct.AMDesc) error { arrived++; return nil })
	var list []*Completion
	st.whenFull(func() {
		for i := range KindsOf(attr) {
			k := &KindsOf(attr)[i]
			s := *st.s
			s.ID = probeID
			for n := 0; ; n++ {
				if n == maxFillMessages {
					t.Fatalf("%s: never refused", k.Name)
				}
				s.Completion = NewCompletion(1)
				// Send checks that nothing was packed.
				err := s.Send(k, numbered(1<<40, k.Max(attr)))
				if accepted(err) {
					sent++
					if err == ucs.InProgress {
						list = append(list, s.Completion)
					}
					continue
				}
				if err != ucs.ErrNoResource || s.Completion.Fired != 0 {
					t.Errorf("%s on a full endpoint: %v, completed %d times", k.Name, err, s.Completion.Fired)
				}
				break
			}
		}
	})
	st.wait()
	Until(t, "the other messages", func() bool { return arrived >= sent }, st.a, st.b)
	Accept(t, st.send, st.a, st.b)
	st.wait()
	Settle(st.a, st.b)
	if arrived != sent {
		t.Errorf("%d messages arrived, %d were accepted", arrived, sent)
	}
	for _, c := range list {
		if c.Fired != 1 || c.Err != nil {
			t.Errorf("an accepted message was completed %d times, error %v", c.Fired, c.Err)
		}
	}
}

// testPendingOrder queues requests on a full endpoint. While they wait, nothing
// overtakes them, and they go out in order.
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

// testPendingDispatch checks what the results of Dispatch mean.
func testPendingDispatch(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	var log []string
	var list []*Pending
	// scripted sends one message per call as script allows: each entry is the
	// result of one call, ErrNoMessage standing for no progress.
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

// testPendingPurge removes what waits: each request is handed out once, in
// order, is not dispatched any more and may be queued again.
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

// testPendingBusy checks that nothing is queued while sending is possible.
func testPendingBusy(t *testing.T, f *Fixture) {
	st := newStream(t, f)
	p := NewPending(func() error { return nil })
	WantStatus(t, "pending on an endpoint that can send", st.ep.PendingAdd(&p.Pending), ucs.ErrBusy)
	if p.Queued() {
		t.Error("a refused request says that it is queued")
	}
	st.ep.PendingPurge(func(*uct.Pending) { t.Error("purged a request that was not queued") })
	Settle(st.a, st.b)
	if p.Calls != 0 {
		t.Error("a refused request was dispatched")
	}
	Accept(t, st.send, st.a, st.b)
	st.wait()
}
