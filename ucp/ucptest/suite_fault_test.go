//go:build linux

package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

var faultCases = []testCase{
	{"the connection breaks at every operation", onDemand | fewSwitches, testDropAnywhere},
	{"any operation fails", onDemand | fewSwitches, testFailAnywhere},
	{"any message is cut short", onDemand | fewSwitches, testCutAnywhere},
}

// converse exchanges messages while faults happen, gives up when nothing more happens, and checks
// that every operation ended exactly once and that the received data is right. It returns the
// number of failed sends.
//
// With cut, messages may have been truncated: the receiver of a message in one packet cannot know.
func converse(t *testing.T, r *rig, a, b *side, cut bool) (failed int) {
	t.Helper()
	faults := [2]*failure{new(failure), new(failure)}
	there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: faults[0].onError})
	back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: faults[1].onError})
	type transfer struct {
		send, recv   started
		src, dst     []byte
		refused      error // error of the call that sends
		pack, unpack *sliceType
	}
	var list []*transfer
	for i, n := range []int{8, 0, 20_000, 100_000, 300, 70_000} {
		for way, ep := range []*ucp.Endpoint{there, back} {
			x := &transfer{src: ucttest.Pattern(n, uint64(i)), dst: make([]byte, n), pack: newSlices(), unpack: newSlices()}
			list = append(list, x)
			to, send := []*side{b, a}[way], ep.TagSend
			if i%2 == 1 {
				send = ep.TagSendSync
			}
			sp := &ucp.RequestParams{Flags: ucp.OpNoImmediate}
			rp := &ucp.RequestParams{}
			if i%3 == 2 {
				sp.Buffer = ucp.Generic(x.pack.dt, x.src, n)
				rp.Buffer = ucp.Generic(x.unpack.dt, x.dst, n)
			}
			x.send.out, x.recv.out = new(outcome), new(outcome)
			sp.OnSend, rp.OnTagRecv = x.send.out.onSend, x.recv.out.onRecv
			tag := ucp.Tag(way)<<8 | ucp.Tag(i)
			var err error
			if i%4 != 3 {
				if x.recv.req, err = to.TagRecv(tag, ucp.FullMask, plain(x.dst, rp), rp); err != nil {
					t.Fatal(err)
				}
			}
			if x.send.req, x.refused = send(tag, plain(x.src, sp), sp); x.refused != nil && ucs.StatusOf(x.refused) >= 0 {
				t.Fatalf("send refused with %v", x.refused)
			}
			if i%4 == 3 {
				r.progress()
				rp.Flags |= ucp.OpNoImmediate
				if x.recv.req, err = to.TagRecv(tag, ucp.FullMask, plain(x.dst, rp), rp); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	done := func() bool {
		for _, x := range list {
			if !x.recv.req.Done() || !x.send.req.Done() {
				return false
			}
		}
		return true
	}
	for idle := 0; idle < 100 && !done(); idle++ {
		if r.progress() > 0 {
			idle = 0
		}
	}
	for _, x := range list { // receives whose message will not arrive
		a.Cancel(x.recv.req)
		b.Cancel(x.recv.req)
	}
	for _, ep := range []*ucp.Endpoint{there, back} {
		r.inTheCall(ep.CloseAsync(force))
	}
	for i, x := range list {
		what := fmt.Sprintf("message %d of %d bytes", i, len(x.src))
		if x.refused == nil {
			if !x.send.req.Done() {
				t.Fatalf("%s: the send did not end", what)
			}
			x.send.out.once(t)
		}
		if x.refused != nil || x.send.req.Err() != nil {
			failed++
		}
		if x.pack.started != x.pack.finished {
			t.Errorf("%s: %d pack states started, %d finished", what, x.pack.started, x.pack.finished)
		}
		if !x.recv.req.Done() {
			continue // some of its fragments were lost
		}
		if x.unpack.started != x.unpack.finished {
			t.Errorf("%s: %d unpack states started, %d finished", what, x.unpack.started, x.unpack.finished)
		}
		x.recv.out.once(t)
		if x.recv.req.Err() == nil {
			n := x.recv.out.info.Length
			if n > len(x.src) || n < len(x.src) && !cut {
				t.Fatalf("%s: %d bytes were received", what, n)
			}
			ucttest.SameBytes(t, what, x.dst[:n], x.src[:n])
		}
	}
	for _, f := range faults {
		if f.calls > 1 {
			t.Errorf("an error handler ran %d times", f.calls)
		}
	}
	a.close()
	b.close()
	for i, x := range list {
		if !x.recv.req.Done() || x.recv.out.calls != 1 || x.unpack.started != x.unpack.finished {
			t.Errorf("message %d: the receive did not end with its worker: done %v, callback ran %d times, states %d and %d",
				i, x.recv.req.Done(), x.recv.out.calls, x.unpack.started, x.unpack.finished)
		}
	}
	return failed
}

// anywhereIn repeats the conversation with a fault at its n-th operation, for every n up to the
// last operation.
func anywhereIn(t *testing.T, tr transport, e fault.Effect) (met, failed int) {
	t.Helper()
	const most = 200
	for n := 1; ; n++ {
		if n == most {
			t.Fatalf("the conversation has more than %d operations", most)
		}
		r := newRig(t, tr)
		hit := false
		plan := tr.sim.plan
		if plan == nil {
			plan = fault.All()
		}
		base := fault.At(n, e)
		tr.sim.inject(t, fault.All(func(op fault.Op) fault.Effect {
			eff := base(op)
			hit = hit || eff != fault.Effect{}
			return eff
		}, plan))
		a, b := r.pair()
		f := converse(t, r, a, b, e.Cut > 0)
		if t.Failed() {
			t.Fatalf("after trouble at operation %d", n)
		}
		tr.sim.plan = plan
		if !hit {
			return met, failed
		}
		met++
		failed += f
	}
}

func testDropAnywhere(t *testing.T, tr transport) {
	met, failed := anywhereIn(t, tr, fault.Effect{Drop: ucs.ErrConnectionReset})
	t.Logf("%d conversations, %d sends failed", met, failed)
	if met < 5 || failed == 0 {
		t.Errorf("%d conversations were disturbed, %d sends failed", met, failed)
	}
}

func testFailAnywhere(t *testing.T, tr transport) {
	met, _ := anywhereIn(t, tr, fault.Effect{Fail: ucs.ErrIO})
	if met < 5 {
		t.Errorf("%d conversations were disturbed", met)
	}
}

func testCutAnywhere(t *testing.T, tr transport) {
	for _, cut := range []int{1, 1 << 20} {
		met, _ := anywhereIn(t, tr, fault.Effect{Cut: cut})
		if met < 5 {
			t.Errorf("%d conversations were disturbed", met)
		}
	}
}
