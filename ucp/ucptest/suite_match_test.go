//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var matchCases = []testCase{
	{"receives match in posting order", anywhere, testPostingOrder},
	{"messages match in arrival order", everySwitch, testArrivalOrder},
	{"the sender's whole tag is reported", everySwitch, testSenderTag},
	{"mask 0 matches everything", anywhere, testMaskZero},
	{"bits outside the mask are ignored", anywhere, testMaskedBits},
	{"probe does not progress", twoSides | prompt, testProbeDoesNotProgress},
	{"probe with remove hides the message", everySwitch, testProbeRemove},
	{"probe without remove shows it again", everySwitch, testProbeKeeps},
	{"a probed message is received once", everySwitch, testProbedOnce},
	{"a removed message keeps collecting fragments", twoSides, testProbePartial},
	{"discarded", everySwitch, testDiscard},
	{"discarded amid its fragments", twoSides, testDiscardPartly},
	{"a message that is arriving can be received", twoSides, testReceivePartial},
	{"cancel before the match", anywhere, testCancel},
	{"cancel after the match", twoSides, testCancelMatched},
	{"cancel of a finished request", anywhere, testCancelFinished},
	{"cancel of a send", everySwitch, testCancelSend},
}

// message returns a small message with a number.
func message(k int) []byte { return ucttest.Pattern(16, uint64(k)) }

// recvInto posts a receive that must not be matched yet.
func (s *side) recvInto(tag, mask ucp.Tag, buf []byte, o *outcome) *ucp.Request {
	s.rig.Helper()
	p := new(ucp.RequestParams)
	if o != nil {
		p.OnTagRecv = o.onRecv
	}
	return s.rig.started(s.TagRecv(tag, mask, buf, p))
}

// take receives a message that has arrived and returns it.
func (s *side) take(tag, mask ucp.Tag, room int) ([]byte, ucp.TagRecvInfo) {
	s.rig.Helper()
	var info ucp.TagRecvInfo
	buf := make([]byte, room)
	req, err := s.TagRecv(tag, mask, buf, &ucp.RequestParams{TagInfo: &info})
	if err != nil {
		s.rig.Fatal(err)
	}
	if req != nil {
		s.rig.until("a receive", req.Done)
		if info, err = req.TagRecvInfo(); err != nil {
			s.rig.Fatal(err)
		}
		req.Free()
	}
	return buf[:info.Length], info
}

// testPostingOrder checks that of several receives that match, the one posted first gets the
// message, although exact and masked receives are kept in different places.
func testPostingOrder(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	const tag = 0x10_0001
	masks := []ucp.Tag{ucp.FullMask, 0xFFFF, ucp.FullMask, 0, 0xF, ucp.FullMask, ucp.FullMask, 0}
	var bufs [][]byte
	var reqs []*ucp.Request
	for _, mask := range masks {
		buf := make([]byte, 16)
		reqs = append(reqs, b.recvInto(tag, mask, buf, nil))
		bufs = append(bufs, buf)
	}
	for i := range masks {
		r.must(ep.TagSend(tag, message(i), nil))
	}
	for i, req := range reqs {
		r.must(req, nil)
		ucttest.SameBytes(t, "message", bufs[i], message(i))
	}
}

// testArrivalOrder checks that messages of one sender that match the same receive are received in
// the order sent, whatever their protocols: a small message does not overtake a large one.
func testArrivalOrder(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	lengths := []int{1 << 20, 1, 100_000, 0, 8, 70_000, 9000, 200, 1 << 18, 3000, 16}
	var reqs []*ucp.Request
	for i, n := range lengths {
		send := ep.TagSend
		if i%3 == 2 {
			send = ep.TagSendSync
		}
		req, err := send(5, ucttest.Pattern(n, uint64(i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		reqs = append(reqs, req)
	}
	for i, n := range lengths {
		r.arrived(b, 5)
		mask := ucp.FullMask
		if i%2 == 1 {
			mask = 7
		}
		got, _ := b.take(5, mask, 1<<20)
		ucttest.SameBytes(t, "message", got, ucttest.Pattern(n, uint64(i)))
	}
	for _, req := range reqs {
		r.must(req, nil)
	}
}

// testSenderTag checks that the reported tag is the sender's, with the bits outside the mask.
func testSenderTag(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	const tag = 0xABCD_0000_1234_5678
	for _, n := range []int{8, 100_000} {
		for _, expected := range []bool{true, false} {
			var o outcome
			var req *ucp.Request
			buf := make([]byte, n)
			if expected {
				req = b.recvInto(0x5678, 0xFFFF, buf, &o)
			}
			sreq, err := ep.TagSend(tag, make([]byte, n), nil)
			if expected {
				r.must(req, nil)
			} else {
				r.arrived(b, tag)
				_, o.info = b.take(0x5678, 0xFFFF, n)
			}
			r.must(sreq, err)
			if want := (ucp.TagRecvInfo{SenderTag: tag, Length: n}); o.info != want {
				t.Errorf("expected %v: %+v, want %+v", expected, o.info, want)
			}
		}
	}
}

func testMaskZero(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, tag := range []ucp.Tag{0, 1, 1 << 63, ^ucp.Tag(0)} {
		r.must(ep.TagSend(tag, message(1), nil))
		r.arrived(b, tag)
		if _, info := b.take(0x1234, 0, 16); info.SenderTag != tag {
			t.Errorf("tag %#x is reported as %#x", tag, info.SenderTag)
		}
	}
}

// testMaskedBits checks that the bits of a receive's own tag outside its mask do not matter.
func testMaskedBits(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var other, o outcome
	b.recvInto(0xFF02, 0x00FF, nil, &other)
	req := b.recvInto(0xFF01, 0x00FF, make([]byte, 16), &o)
	r.must(ep.TagSend(0xAA01, message(1), nil))
	r.must(req, nil)
	if other.calls != 0 || o.info.SenderTag != 0xAA01 {
		t.Errorf("info %+v; the other receive's callback ran %d times", o.info, other.calls)
	}
	if _, ok := b.TagPeek(0xAA01, ucp.FullMask); ok {
		t.Error("the message is still there")
	}
}

func testProbeDoesNotProgress(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	r.inTheCall(ep.TagSend(1, message(1), nil))
	for range 100 {
		if _, ok := b.TagPeek(1, ucp.FullMask); ok {
			t.Fatal("probe found a message that no progress has taken in")
		}
	}
	r.arrived(b, 1)
}

func testProbeRemove(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for i, n := range []int{16, 100_000} {
		src := ucttest.Pattern(n, 9)
		sreq, serr := ep.TagSend(1, src, nil)
		r.arrived(b, 1)
		m, ok := b.TagTake(1, ucp.FullMask)
		if want := (ucp.TagRecvInfo{SenderTag: 1, Length: n}); !ok || m.Info() != want {
			t.Fatalf("probe: %v, %+v, want %+v", ok, m.Info(), want)
		}
		if _, ok := b.TagPeek(1, 0); ok {
			t.Error("the removed message was found again")
		}
		var o outcome
		req := b.recvInto(1, 0, make([]byte, n), &o)
		r.settle()
		if o.calls != 0 {
			t.Fatal("a receive got the removed message")
		}
		b.Cancel(req)
		req.Free()
		buf := make([]byte, n)
		r.must(m.Recv(buf, nil))
		ucttest.SameBytes(t, "message", buf, src)
		r.must(sreq, serr)
		if got := b.Stats().UnexpectedBytes; got != 0 {
			t.Errorf("round %d: %d bytes are still held", i, got)
		}
	}
}

func testProbeKeeps(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	sreq, serr := ep.TagSend(3, ucttest.Pattern(100_000, 1), nil)
	r.arrived(b, 3)
	for range 3 {
		info, ok := b.TagPeek(3, ucp.FullMask)
		if !ok || info.Length != 100_000 {
			t.Fatalf("probe: %v, %+v", ok, info)
		}
	}
	got, _ := b.take(3, ucp.FullMask, 100_000)
	ucttest.SameBytes(t, "message", got, ucttest.Pattern(100_000, 1))
	r.must(sreq, serr)
}

func testProbedOnce(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{8, 100_000} {
		sreq, serr := ep.TagSend(3, make([]byte, n), nil)
		r.arrived(b, 3)
		m, _ := b.TagTake(3, ucp.FullMask)
		var o outcome
		req, err := m.Recv(make([]byte, n), &ucp.RequestParams{OnTagRecv: o.onRecv})
		if req2, err := m.Recv(make([]byte, n), nil); req2 != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Fatalf("receiving twice: %v, %v", req2, err)
		}
		r.must(req, err)
		r.must(sreq, serr)
	}
	if req, err := (*ucp.TagMessage)(nil).Recv(nil, nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("receiving no message: %v, %v", req, err)
	}
}

// testDiscard checks that a discarded message is complete for both sides, however much of it has
// arrived.
func testDiscard(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{0, 8, 5000, 100_000, 1 << 20} {
		for _, send := range []func(ucp.Tag, []byte, *ucp.RequestParams) (*ucp.Request, error){ep.TagSend, ep.TagSendSync} {
			req, err := send(3, make([]byte, n), nil)
			r.arrived(b, 3)
			m, ok := b.TagTake(3, ucp.FullMask)
			if !ok {
				t.Fatal("the message is gone")
			}
			m.Discard()
			m.Discard()
			if req, err := m.Recv(make([]byte, n), nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("receiving it: %v, %v", req, err)
			}
			r.must(req, err)
			r.settle()
			if got := b.Stats().UnexpectedBytes; got != 0 {
				t.Errorf("%d bytes: %d are still held", n, got)
			}
		}
	}
	(*ucp.TagMessage)(nil).Discard()
	r.sendAndTake(ep, b, 3, message(4))
}

// testDiscardPartly checks that the rest of a discarded message does not affect other messages.
func testDiscardPartly(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	req := sendPartly(t, r, ep, a, b, make([]byte, partialLength))
	m, ok := b.TagTake(8, ucp.FullMask)
	if !ok {
		t.Fatal("the message is gone")
	}
	m.Discard()
	r.must(req, nil)
	r.sendAndTake(ep, b, 8, message(4))
	r.settle()
	if got := b.Stats().UnexpectedBytes; got != 0 {
		t.Errorf("%d bytes are still held", got)
	}
}

// partialLength is more than one round of progress receives.
const partialLength = 8 << 20

// sendPartly sends a message in fragments until some of them, but not all, have arrived.
func sendPartly(t *testing.T, r *rig, ep *ucp.Endpoint, a, b *side, src []byte) *ucp.Request {
	t.Helper()
	sreq := r.started(ep.TagSend(8, src, nil))
	for range spinRounds {
		if info, ok := b.TagPeek(8, ucp.FullMask); ok {
			if info.Length != len(src) {
				t.Fatalf("a message of %d bytes is announced with %d", len(src), info.Length)
			}
			if held := b.Stats().UnexpectedBytes; held == 0 || held >= len(src) {
				t.Fatalf("%d of %d bytes are here; the test wants some of them", held, len(src))
			}
			return sreq
		}
		a.Progress()
		b.Progress()
	}
	t.Fatal("the message does not arrive")
	return nil
}

// testProbePartial checks that the full length is known while fragments are in flight, and that a
// message that was taken continues to collect them.
func testProbePartial(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	src := ucttest.Pattern(partialLength, 8)
	sreq := sendPartly(t, r, ep, a, b, src)
	m, _ := b.TagTake(8, ucp.FullMask)
	if _, ok := b.TagPeek(0, 0); ok {
		t.Fatal("the removed message is still shown")
	}
	r.must(sreq, nil) // all fragments have been sent
	r.settle()
	buf := make([]byte, len(src))
	r.must(m.Recv(buf, nil))
	ucttest.SameBytes(t, "message", buf, src)
	if held := b.Stats().UnexpectedBytes; held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// testReceivePartial receives a message that is still arriving, by tag and by handle, with and
// without enough room.
func testReceivePartial(t *testing.T, tr transport) {
	for _, c := range []struct {
		name  string
		probe bool
		room  int
		want  error
	}{
		{"by tag", false, partialLength, nil},
		{"by handle", true, partialLength, nil},
		{"truncated", false, 1000, ucs.ErrMessageTruncated},
		{"truncated by handle", true, 1000, ucs.ErrMessageTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
			a, b := r.pair()
			ep := a.connect(b)
			r.warm(ep, b)
			src := ucttest.Pattern(partialLength, 8)
			sreq := sendPartly(t, r, ep, a, b, src)
			buf := make([]byte, c.room)
			var o outcome
			p := &ucp.RequestParams{OnTagRecv: o.onRecv, Flags: ucp.OpNoImmediate}
			var req *ucp.Request
			var err error
			if c.probe {
				m, _ := b.TagTake(8, ucp.FullMask)
				req, err = m.Recv(buf, p)
			} else {
				req, err = b.TagRecv(8, ucp.FullMask, buf, p)
			}
			if err := r.finish(req, err); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("receive: %v, want %v", err, c.want)
			}
			o.once(t)
			r.must(sreq, nil)
			if c.want == nil {
				ucttest.SameBytes(t, "message", buf, src)
			}
			// The rest of the message does not affect other messages.
			r.sendAndTake(ep, b, 8, message(1))
			if held := b.Stats().UnexpectedBytes; held != 0 {
				t.Errorf("%d bytes are still held", held)
			}
		})
	}
}

// testCancel checks that a canceled receive ends with Canceled, once, and takes no message.
func testCancel(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var o, second outcome
	req := b.recvInto(1, ucp.FullMask, make([]byte, 16), &o)
	wild := b.recvInto(1, 0, make([]byte, 16), nil)
	keep := b.recvInto(1, ucp.FullMask, make([]byte, 16), &second)
	b.Cancel(req)
	b.Cancel(wild)
	r.settle()
	o.once(t)
	if !errors.Is(o.err, ucs.ErrCanceled) || !errors.Is(req.Err(), ucs.ErrCanceled) || !req.Done() {
		t.Errorf("callback %v, request %v, want canceled", o.err, req.Err())
	}
	if _, err := req.TagRecvInfo(); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("info of a canceled receive: %v", err)
	}
	b.Cancel(req)
	o.once(t)
	req.Free()
	wild.Free()
	r.must(ep.TagSend(1, message(1), nil))
	r.must(keep, nil)
	second.once(t)
	r.sendAndTake(ep, b, 1, message(2))
}

// testCancelMatched checks that a receive that has matched a message but not got its data
// completes.
func testCancelMatched(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "0"}))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	src := ucttest.Pattern(1<<20, 4)
	sreq := r.started(ep.TagSend(1, src, nil))
	r.arrived(b, 1)
	var o outcome
	buf := make([]byte, len(src))
	req := b.recvInto(1, ucp.FullMask, buf, &o)
	b.Cancel(req)
	if req.Done() {
		t.Fatal("the rendezvous was ended by cancel")
	}
	r.must(req, nil)
	o.once(t)
	r.must(sreq, nil)
	ucttest.SameBytes(t, "message", buf, src)
}

func testCancelFinished(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var o outcome
	req := b.recvInto(1, ucp.FullMask, make([]byte, 16), &o)
	r.must(ep.TagSend(1, message(1), nil))
	r.until("the receive", req.Done)
	b.Cancel(req)
	b.Cancel(nil)
	o.once(t)
	if err := req.Err(); err != nil {
		t.Errorf("a finished receive was turned into %v", err)
	}
	req.Free()
}

// testCancelSend checks that sends cannot be canceled and go on.
func testCancelSend(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var o outcome
	src := ucttest.Pattern(100_000, 1)
	req := r.started(ep.TagSendSync(1, src, &ucp.RequestParams{OnSend: o.onSend}))
	a.Cancel(req)
	if req.Done() {
		t.Fatalf("the send was ended: %v", req.Err())
	}
	r.arrived(b, 1)
	got, _ := b.take(1, ucp.FullMask, len(src))
	ucttest.SameBytes(t, "message", got, src)
	r.must(req, nil)
	o.once(t)
}
