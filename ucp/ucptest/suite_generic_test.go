//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var genericCases = []testCase{
	{"every state is finished once", everySwitch, testGenericStates},
	{"a datatype that packs a byte at a time", everySwitch, testGenericSlowPack},
	{"a datatype that stops packing", everySwitch, testGenericPackStops},
	{"a datatype that cannot unpack", everySwitch, testGenericUnpackFails},
	{"a datatype that cannot start", everySwitch, testGenericStartFails},
	{"elements", everySwitch, testElements},
	{"list entries without bytes", everySwitch, testEmptyEntries},
	{"lists of very many entries", everySwitch, testLongLists},
	{"packed sizes", anywhere, testPackedSize},
}

// testGenericStates checks that each state of a generic datatype is finished exactly once, however
// its operation ends.
func testGenericStates(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	d := newSlices()
	buffer := func(n int) *ucp.RequestParams {
		return &ucp.RequestParams{Buffer: ucp.Generic(d.dt, make([]byte, n), n)}
	}
	check := func(what string) {
		t.Helper()
		if d.started == 0 || d.started != d.finished {
			t.Errorf("%s: %d states started, %d finished", what, d.started, d.finished)
		}
		d.started, d.finished = 0, 0
	}
	for _, n := range []int{0, 100, 20_000, 1 << 20} {
		rreq := r.started(b.TagRecv(1, 0, nil, buffer(n)))
		r.must(ep.TagSend(1, nil, buffer(n)))
		r.must(rreq, nil)
		check("success")

		sreq, serr := ep.TagSend(1, nil, buffer(n))
		r.arrived(b, 1)
		rreq, rerr := b.TagRecv(1, 0, nil, buffer(n))
		r.must(rreq, rerr)
		r.must(sreq, serr)
		check("unexpected")

		rreq = r.started(b.TagRecv(1, 0, nil, buffer(n)))
		b.Cancel(rreq)
		rreq.Free()
		check("canceled")

		if n > 0 {
			rreq = r.started(b.TagRecv(1, 0, nil, buffer(n-1)))
			r.must(ep.TagSend(1, nil, buffer(n)))
			if err := r.finish(rreq, nil); !errors.Is(err, ucs.ErrMessageTruncated) {
				t.Errorf("truncated: %v", err)
			}
			check("truncated")
		}

		r.started(b.TagRecv(1, 0, nil, buffer(n))).Free()
		r.must(ep.TagSendSync(1, nil, buffer(n)))
		r.settle()
		check("freed in flight")

		p := buffer(n)
		p.Flags = ucp.OpForceImmediate
		if req, err := b.TagRecv(1, 0, nil, p); req != nil || !errors.Is(err, ucs.ErrNoResource) {
			t.Errorf("forced receive: %v, %v", req, err)
		}
		check("refused")

		user := new(ucp.Request)
		p = buffer(n)
		p.Request = user
		r.started(b.TagRecv(1, 0, nil, p))
		r.must(ep.TagSendSync(1, nil, buffer(n)))
		r.until("the receive", user.Done)
		check("user's request")
	}
}

// testGenericSlowPack checks that a datatype may pack fewer bytes than asked for.
func testGenericSlowPack(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{100, 20_000} {
		d := newSlices()
		d.step = 1
		src, buf := ucttest.Pattern(n, 1), make([]byte, n)
		rreq := r.started(b.TagRecv(1, 0, buf, nil))
		r.must(ep.TagSend(1, nil, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, src, n)}))
		r.must(rreq, nil)
		ucttest.SameBytes(t, "message", buf, src)
		if d.packs < n {
			t.Errorf("%d calls of Pack for %d bytes", d.packs, n)
		}
	}
}

// testGenericPackStops checks that a datatype that returns no bytes before the end fails the send,
// and that the endpoint goes on.
func testGenericPackStops(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{100, 20_000, 300_000} {
		d := newSlices()
		d.packStop = n / 2
		d.step = n / 4
		offers := a.Stats().RndvSends
		rreq := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), nil))
		sreq, serr := ep.TagSend(1, nil, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, make([]byte, n), n)})
		if err := r.finish(sreq, serr); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if d.started != 1 || d.finished != 1 {
			t.Errorf("%d states started, %d finished", d.started, d.finished)
		}
		r.settle()
		// With rendezvous the receiver can be notified.
		if a.Stats().RndvSends > offers && !errors.Is(rreq.Err(), ucs.ErrCanceled) {
			t.Errorf("%d bytes: the receive: done %v, %v", n, rreq.Done(), rreq.Err())
		}
		b.Cancel(rreq)
		rreq.Free()
		r.sendAndTake(ep, b, 2, message(1))
	}
}

// testGenericUnpackFails checks that an unpack error is the result of the receive. The rest of the
// message is discarded, Unpack is not called again, and the send succeeds.
func testGenericUnpackFails(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{100, 20_000, 300_000} {
		for _, expected := range []bool{true, false} {
			for _, send := range []func(ucp.Tag, []byte, *ucp.RequestParams) (*ucp.Request, error){ep.TagSend, ep.TagSendSync} {
				d := newSlices()
				d.unpackErr = errUnpack
				var o outcome
				p := &ucp.RequestParams{
					Buffer: ucp.Generic(d.dt, make([]byte, n), n), OnTagRecv: o.onRecv, Flags: ucp.OpNoImmediate,
				}
				var rreq *ucp.Request
				if expected {
					rreq = r.started(b.TagRecv(1, 0, nil, p))
				}
				sreq, serr := send(1, make([]byte, n), nil)
				if !expected {
					r.arrived(b, 1)
					rreq = r.started(b.TagRecv(1, 0, nil, p))
				}
				if err := r.finish(rreq, nil); !errors.Is(err, errUnpack) {
					t.Errorf("%d bytes, expected %v: receive %v", n, expected, err)
				}
				o.once(t)
				if err := r.finish(sreq, serr); err != nil {
					t.Errorf("%d bytes, expected %v: send %v", n, expected, err)
				}
				r.settle()
				if d.unpacks != 1 || d.finished != 1 {
					t.Errorf("%d bytes, expected %v: Unpack was called %d times, Finish %d times", n, expected, d.unpacks, d.finished)
				}
				r.sendAndTake(ep, b, 2, message(1))
			}
		}
	}
	if s := b.Stats(); s.UnexpectedBytes != 0 || s.Malformed != 0 {
		t.Errorf("receiver's counters: %+v", s)
	}
}

// noStart is a datatype whose states cannot be started.
type noStart struct{ err error }

func (n noStart) StartPack(any, int) (ucp.PackState, error)     { return nil, n.err }
func (n noStart) StartUnpack(any, int) (ucp.UnpackState, error) { return nil, n.err }

// testGenericStartFails checks that the error of starting a state is returned by the call, and that
// a message that had arrived stays in place.
func testGenericStartFails(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	broken := errors.New("no state to be had")
	p := &ucp.RequestParams{Buffer: ucp.Generic(ucp.NewGeneric(noStart{broken}), nil, 1)}
	if req, err := ep.TagSend(1, nil, p); req != nil || !errors.Is(err, broken) {
		t.Errorf("send: %v, %v", req, err)
	}
	if req, err := ep.TagSendSync(1, nil, p); req != nil || !errors.Is(err, broken) {
		t.Errorf("synchronous send: %v, %v", req, err)
	}
	sreq, serr := ep.TagSend(1, message(1), nil)
	r.arrived(b, 1)
	if req, err := b.TagRecv(1, 0, nil, p); req != nil || !errors.Is(err, broken) {
		t.Errorf("receive: %v, %v", req, err)
	}
	m, ok := b.TagTake(1, 0)
	if !ok {
		t.Fatal("the message is gone")
	}
	if req, err := m.Recv(nil, p); req != nil || !errors.Is(err, broken) {
		t.Errorf("receive by handle: %v, %v", req, err)
	}
	r.must(m.Recv(make([]byte, 16), nil))
	r.must(sreq, serr)
}

func testElements(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	src, buf := ucttest.Pattern(48_000, 1), make([]byte, 48_000)
	var o outcome
	rreq := r.started(b.TagRecv(1, 0, nil, &ucp.RequestParams{Buffer: ucp.Elements(buf, 16), OnTagRecv: o.onRecv}))
	r.must(ep.TagSend(1, nil, &ucp.RequestParams{Buffer: ucp.Elements(src, 48)}))
	r.must(rreq, nil)
	ucttest.SameBytes(t, "message", buf, src)
	if o.info.Length != len(src) {
		t.Errorf("length %d, want bytes", o.info.Length)
	}
	for _, bad := range []ucp.Buffer{ucp.Elements(src, 0), ucp.Elements(src, -4), ucp.Elements(src[:17], 4)} {
		p := &ucp.RequestParams{Buffer: bad}
		if req, err := ep.TagSend(1, nil, p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("send: %v, %v", req, err)
		}
		if req, err := b.TagRecv(1, 0, nil, p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("receive: %v, %v", req, err)
		}
	}
}

// testEmptyEntries checks lists with nil or empty entries, also as the first, the last, or all of
// them.
func testEmptyEntries(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	src := ucttest.Pattern(9000, 1)
	for _, list := range [][][]byte{
		{},
		{nil},
		{nil, {}, nil},
		{nil, src[:1000], nil, nil, src[1000:1001], {}, src[1001:], nil},
		{src, nil},
		{nil, src},
	} {
		want := bytes.Join(list, nil)
		buf := make([]byte, len(want))
		half := len(buf) / 3
		to := ucp.IOV(nil, buf[:half], nil, buf[half:], nil)
		rreq := r.started(b.TagRecv(1, 0, nil, &ucp.RequestParams{Buffer: to}))
		r.must(ep.TagSend(1, nil, &ucp.RequestParams{Buffer: ucp.IOV(list...)}))
		r.must(rreq, nil)
		ucttest.SameBytes(t, "message", buf, want)
	}
}

// testLongLists checks lists with more entries than any transport takes at once.
func testLongLists(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{100, 9000, 200_000} {
		src, buf := ucttest.Pattern(n, 1), make([]byte, n)
		var from, to [][]byte
		for i := range n {
			if i%7 == 0 {
				from = append(from, src[i:min(i+7, n)])
			}
			if i%11 == 0 {
				to = append(to, buf[i:min(i+11, n)])
			}
		}
		rreq := r.started(b.TagRecv(1, 0, nil, &ucp.RequestParams{Buffer: ucp.IOV(to...)}))
		r.must(ep.TagSend(1, nil, &ucp.RequestParams{Buffer: ucp.IOV(from...)}))
		r.must(rreq, nil)
		ucttest.SameBytes(t, "message", buf, src)
	}
}

func testPackedSize(t *testing.T, _ transport) {
	d := newSlices()
	for _, tc := range []struct {
		b     ucp.Buffer
		class ucp.DatatypeClass
		size  int
		ok    bool
	}{
		{ucp.Buffer{}, ucp.DatatypeContig, 0, true},
		{ucp.Bytes(make([]byte, 5)), ucp.DatatypeContig, 5, true},
		{ucp.Elements(make([]byte, 12), 4), ucp.DatatypeContig, 12, true},
		{ucp.Elements(make([]byte, 13), 4), ucp.DatatypeContig, 0, false},
		{ucp.IOV(nil, make([]byte, 3), make([]byte, 4)), ucp.DatatypeIOV, 7, true},
		{ucp.Generic(d.dt, make([]byte, 9), 9), ucp.DatatypeGeneric, 9, true},
	} {
		n, err := tc.b.PackedSize()
		if n != tc.size || (err == nil) != tc.ok || tc.b.Class() != tc.class {
			t.Errorf("%v: %d bytes, %v, class %d", tc.b, n, err, tc.b.Class())
		}
	}
	if d.started != 1 || d.finished != 1 {
		t.Errorf("%d states started, %d finished", d.started, d.finished)
	}
	if b := (ucp.Buffer{}); !b.IsZero() {
		t.Error("the zero Buffer is not zero")
	}
	if b := ucp.Bytes(nil); b.IsZero() {
		t.Error("an empty buffer is taken for none")
	}
}
