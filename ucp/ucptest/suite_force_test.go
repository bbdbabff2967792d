//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var forceCases = []testCase{
	{"force-immediate send", prompt, testForceSend},
	{"force-immediate sends until the transport is full", twoSides, testForcePressure},
	{"force-immediate receive", everySwitch, testForceRecv},
}

// testForceSend checks that UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL completes a send in the call or has no
// effect.
func testForceSend(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	force := &ucp.RequestParams{Flags: ucp.OpForceImmediate}
	r.inTheCall(ep.TagSend(1, message(1), force))
	r.inTheCall(ep.TagSend(2, nil, force))
	refused := func(what string, req *ucp.Request, err error) {
		t.Helper()
		if req != nil || !errors.Is(err, ucs.ErrNoResource) {
			t.Errorf("%s: %v, %v, want no resource", what, req, err)
		}
	}
	d := newSlices()
	mem := make([]byte, 1<<20)
	sends, requests := a.Stats().TagSends, a.Stats().Requests
	req, err := ep.TagSend(3, mem, force)
	refused("a large send", req, err)
	req, err = ep.TagSendSync(3, nil, force)
	refused("a synchronous send", req, err)
	req, err = ep.TagSend(3, nil, &ucp.RequestParams{Flags: ucp.OpForceImmediate, Buffer: ucp.Generic(d.dt, mem, len(mem))})
	refused("a large generic send", req, err)
	if d.started != d.finished {
		t.Errorf("generic states: %d started, %d finished", d.started, d.finished)
	}
	if req, err = ep.Flush(force); req != nil || err != nil && !errors.Is(err, ucs.ErrNoResource) {
		t.Errorf("a flush: %v, %v", req, err)
	}
	r.settle()
	if info, ok := b.TagPeek(3, ucp.FullMask); ok {
		t.Errorf("a refused send arrived: %+v", info)
	}
	for tag := ucp.Tag(1); tag <= 2; tag++ {
		r.arrived(b, tag)
		b.take(tag, ucp.FullMask, 16)
	}
	// Race builds allocate a request for each call.
	if s := a.Stats(); s.TagSends != sends || !race.Enabled && s.Requests > requests+1 {
		t.Errorf("refused sends count: %+v", s)
	}

	// Before the connection is established.
	if !tr.loopback {
		fresh := a.connect(r.open())
		req, err := fresh.TagSend(1, message(1), force)
		if err != nil { // some transports need no connection
			refused("on a new endpoint", req, err)
		}
		// After a send that waits.
		r.started(fresh.TagSendSync(1, nil, nil))
		req, err = fresh.TagSend(1, message(1), force)
		refused("behind a waiting send", req, err)
	}
}

// testForcePressure checks that forced sends are accepted until the transport has no room, and that
// the peer gets exactly the accepted ones. A datatype that stops packing is an error here too.
func testForcePressure(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	const most = 20_000
	sent := 0
	for i := range most {
		n := []int{8, 200, 3000, 8000}[i%4]
		req, err := ep.TagSend(1, ucttest.Pattern(n, uint64(i)), &ucp.RequestParams{Flags: ucp.OpForceImmediate})
		if req != nil || err != nil && !errors.Is(err, ucs.ErrNoResource) {
			t.Fatalf("send %d of %d bytes: %v, %v", i, n, req, err)
		}
		if err != nil {
			break
		}
		sent++
	}
	for i := range sent {
		r.arrived(b, 1)
		got, _ := b.take(1, ucp.FullMask, 8000)
		ucttest.SameBytes(t, "message", got, ucttest.Pattern([]int{8, 200, 3000, 8000}[i%4], uint64(i)))
	}
	r.settle()
	if _, ok := b.TagPeek(0, 0); ok {
		t.Error("a refused send arrived")
	}
	r.must(ep.Flush(nil))
	d := newSlices()
	d.step, d.packStop = 10, 50
	for range spinRounds { // until there is room again
		_, err := ep.TagSend(2, nil, &ucp.RequestParams{
			Flags: ucp.OpForceImmediate, Buffer: ucp.Generic(d.dt, make([]byte, 100), 100),
		})
		if errors.Is(err, ucs.ErrNoResource) {
			r.progress()
			continue
		}
		if !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("a datatype that stops packing: %v", err)
		}
		return
	}
	t.Error("no room for a forced send on an idle endpoint")
}

// testForceRecv checks that a forced receive gets a message that has completely arrived, and leaves
// other messages in place.
func testForceRecv(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	buf := make([]byte, 1<<20)
	info := ucp.TagRecvInfo{}
	force := &ucp.RequestParams{Flags: ucp.OpForceImmediate, TagInfo: &info}
	if req, err := b.TagRecv(1, ucp.FullMask, buf, force); req != nil || !errors.Is(err, ucs.ErrNoResource) {
		t.Fatalf("with nothing there: %v, %v", req, err)
	}
	for _, n := range []int{16, 1 << 20} {
		src := ucttest.Pattern(n, uint64(n))
		sreq, serr := ep.TagSend(1, src, nil)
		r.arrived(b, 1)
		req, err := b.TagRecv(1, ucp.FullMask, buf, force)
		switch {
		case req != nil:
			t.Fatalf("a request was returned: %v", req.Err())
		case err == nil:
			ucttest.SameBytes(t, "message", buf[:info.Length], src)
			r.must(sreq, serr)
			continue
		case !errors.Is(err, ucs.ErrNoResource):
			t.Fatal(err)
		}
		r.arrived(b, 1)
		m, ok := b.TagTake(1, ucp.FullMask)
		if !ok {
			t.Fatal("the message is gone")
		}
		if req, err := m.Recv(buf, force); req != nil || !errors.Is(err, ucs.ErrNoResource) {
			t.Fatalf("by handle: %v, %v", req, err)
		}
		r.must(m.Recv(buf, nil))
		ucttest.SameBytes(t, "message", buf[:n], src)
		r.must(sreq, serr)
	}
	// Refused receives were not posted.
	r.sendAndTake(ep, b, 1, message(1))
}
