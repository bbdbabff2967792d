//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var streamCases = []testCase{
	{"bytes of all lengths and layouts", fewSwitches, testStreamBytes},
	{"both directions at once", fewSwitches, testStreamBothWays},
	{"receives are filled in order", anywhere, testStreamRecvOrder},
	{"wait for all", anywhere, testStreamWaitAll},
	{"completion", anywhere, testStreamCompletion},
	{"forced completion", prompt, testStreamForced},
	{"library memory", anywhere, testStreamData},
	{"cancel", anywhere, testStreamCancel},
	{"a wait that ends early", anywhere, testStreamContext},
	{"a datatype that fails", anywhere, testStreamUnpackFails},
	{"a send in a callback", fewSwitches, testStreamSendInside},
	{"a receive in a callback", anywhere, testStreamRecvInside},
	{"a datatype that calls", anywhere, testStreamUnpackCalls},
	{"the peer is lost", twoSides | watchful, testStreamPeerLost},
	{"close", anywhere, testStreamClose},
	{"close of the worker", anywhere, testStreamWorkerClose},
}

// streams are two endpoints that are connected with each other; on a loopback transport they are
// the same endpoint.
type streams struct {
	*rig
	a, b   *side
	ab, ba *ucp.Endpoint
	sent   int // bytes sent over ab
	read   int // bytes of them that were read
}

// withStreams are the features of these tests.
const withStreams = features | ucp.FeatureStream

// streamSide opens a worker with streams.
func (r *rig) streamSide() *side {
	r.Helper()
	return r.openWith(ucp.ContextParams{Features: withStreams}, ucp.WorkerParams{})
}

func (r *rig) streams() *streams {
	r.Helper()
	return r.streamsWith(ucp.EndpointParams{})
}

func (r *rig) streamsWith(p ucp.EndpointParams) *streams {
	r.Helper()
	s := &streams{rig: r, a: r.streamSide()}
	if r.loopback {
		s.b, s.ab = s.a, s.a.connectWith(s.a, p)
		s.ba = s.ab
		return s
	}
	s.b = r.streamSide()
	s.ab, s.ba = s.a.connectWith(s.b, p), s.b.connectWith(s.a, p)
	return s
}

// streamLengths are the lengths of pieces.
var streamLengths = []int{0, 1, 7, 8, 64, 65, 1000, 8184, 8192, 9000, 65_536, 150_000}

// streamText is the repeated contents of streams. Its length is not a multiple of any other length.
var streamText = ucttest.Pattern(99_991, 7)

// streamBytes returns n bytes of a stream from an offset.
func streamBytes(off, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; {
		i += copy(b[i:], streamText[(off+i)%len(streamText):])
	}
	return b
}

// next returns the next n bytes to be sent.
func (s *streams) next(n int) []byte {
	s.sent += n
	return streamBytes(s.sent-n, n)
}

// send sends the next n bytes and waits for the end of the send.
func (s *streams) send(n int) {
	s.Helper()
	s.must(s.ab.StreamSend(s.next(n), nil))
}

// check checks bytes that were read.
func (s *streams) check(what string, b []byte) {
	s.Helper()
	s.read += len(b)
	ucttest.SameBytes(s, what, b, streamBytes(s.read-len(b), len(b)))
}

// recv receives bytes and checks them.
func (s *streams) recv(buf []byte, p *ucp.RequestParams) int {
	s.Helper()
	n := s.got(s.ba.StreamRecv(buf, p))
	s.check("a receive", buf[:n])
	return n
}

// got waits for a receive that succeeds.
func (s *streams) got(n int, req *ucp.Request, err error) int {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	if req == nil {
		return n
	}
	if n != 0 {
		s.Fatalf("a request and %d bytes", n)
	}
	s.until("a stream receive", req.Done)
	n, err = req.RecvLength()
	if err != nil {
		s.Fatal(err)
	}
	req.Free()
	return n
}

// posted returns the request of a receive that must not complete in the call.
func (s *streams) posted(n int, req *ucp.Request, err error) *ucp.Request {
	s.Helper()
	if n != 0 || req == nil || err != nil {
		s.Fatalf("a receive of what has not come: %d, %v, %v", n, req, err)
	}
	return req
}

// ready waits until b has data to read.
func (s *streams) ready() {
	s.Helper()
	s.until("a stream with something to read", func() bool { return len(s.poll(1)) > 0 })
}

// arrives waits until n bytes can be read, if they are sent in one piece.
func (s *streams) arrives(n int) {
	s.Helper()
	s.ready()
	s.settle()
}

// poll returns up to n ready endpoints of b.
func (s *streams) poll(n int) []ucp.StreamReady {
	s.Helper()
	list := make([]ucp.StreamReady, n)
	n, err := s.b.StreamPoll(list)
	if err != nil {
		s.Fatal(err)
	}
	return list[:n]
}

// testStreamBytes checks that the bytes that are sent are received, whatever the pieces and layouts
// on both sides. Nothing separates pieces.
func testStreamBytes(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	list := append([]layout{{"bytes", flat}}, layouts...)
	for i, n := range streamLengths {
		for k, l := range list {
			for _, expected := range []bool{false, true} {
				to := list[(k+i)%len(list)]
				src, buf := s.next(n), make([]byte, n+3)
				p := &ucp.RequestParams{Buffer: l.make(src)}
				send := func() *ucp.Request {
					req, err := s.ab.StreamSend(plain(src, p), p)
					if err != nil {
						t.Fatalf("%d bytes, %s: %v", n, l.name, err)
					}
					return req
				}
				var sreq *ucp.Request
				if !expected {
					sreq = send()
				}
				rp := &ucp.RequestParams{Buffer: to.make(buf[:n]), StreamFlags: ucp.StreamRecvWaitAll}
				rn, rreq, rerr := s.ba.StreamRecv(plain(buf[:n], rp), rp)
				if expected {
					sreq = send()
				}
				if got := s.got(rn, rreq, rerr); got != n {
					t.Fatalf("%d bytes, %s to %s: received %d", n, l.name, to.name, got)
				}
				s.check(fmt.Sprintf("%d bytes, %s to %s", n, l.name, to.name), buf[:n])
				ucttest.SameBytes(t, "behind the bytes", buf[n:], make([]byte, 3))
				s.must(sreq, nil)
			}
		}
	}
	// In pieces that the receiver chooses.
	for _, n := range streamLengths {
		s.send0(n)
	}
	buf := make([]byte, 3000)
	for i := 0; s.read < s.sent; i++ {
		s.recv(buf[:1+i*i%len(buf)], nil)
	}
	if st := s.a.Stats(); st.Malformed != 0 || st.Failed != 0 && !tr.paired || st.TagSends != 0 || st.StreamSends == 0 {
		t.Errorf("sender's counters: %+v", st)
	}
	// With pairwise lanes wireup requests of both sides may cross.
	if st := s.b.Stats(); st.Malformed != 0 || st.Failed != 0 && !tr.paired ||
		st.UnexpectedBytes != 0 || st.StreamRecvs == 0 {
		t.Errorf("receiver's counters: %+v", st)
	}
}

// send0 starts to send the next n bytes and does not wait.
func (s *streams) send0(n int) {
	s.Helper()
	req, err := s.ab.StreamSend(s.next(n), nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Free()
}

// testStreamBothWays has pieces of all lengths in flight in both directions, without progress in
// between.
func testStreamBothWays(t *testing.T, tr transport) {
	if tr.loopback {
		t.Skip("there is one direction")
	}
	s := newRig(t, tr).streams()
	var reqs []*ucp.Request
	total := 0
	for _, n := range streamLengths {
		total += n
	}
	src := streamBytes(0, total)
	var bufs [2][]byte
	for i, ep := range []*ucp.Endpoint{s.ab, s.ba} {
		bufs[i] = make([]byte, total)
		_, req, err := ep.StreamRecv(bufs[i], &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll})
		reqs = append(reqs, s.started(req, err))
		off := 0
		for _, n := range streamLengths {
			req, err := ep.StreamSend(src[off:off+n], nil)
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
			off += n
		}
	}
	for _, req := range reqs {
		s.must(req, nil)
	}
	for _, b := range bufs {
		ucttest.SameBytes(t, "stream", b, src)
	}
}

// testStreamRecvOrder checks that receives are filled in the order in which they were posted, and
// that one piece may fill several.
func testStreamRecvOrder(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	var order []int
	var reqs []*ucp.Request
	lengths := []int{3, 100, 1, 5000, 20_000, 8}
	var bufs [][]byte
	for i, n := range lengths {
		bufs = append(bufs, make([]byte, n))
		reqs = append(reqs, s.posted(s.ba.StreamRecv(bufs[i], &ucp.RequestParams{
			StreamFlags: ucp.StreamRecvWaitAll,
			UserData:    i,
			OnStreamRecv: func(_ *ucp.Request, err error, got int, data any) {
				if err != nil || got != n || data != i {
					t.Errorf("receive %d: %v, %d bytes, %v", i, err, got, data)
				}
				order = append(order, i)
			},
		})))
	}
	s.send(20)
	s.send(25_092)
	for _, req := range reqs {
		s.must(req, nil)
	}
	for i, b := range bufs {
		s.check("a receive", b)
		if order[i] != i {
			t.Fatalf("receives ended in the order %v", order)
		}
	}
	if got := s.poll(1); len(got) != 0 {
		t.Error("something is left")
	}
}

// testStreamWaitAll checks that with UCP_STREAM_RECV_FLAG_WAITALL a receive completes when it is
// full, so that two sends of 5 bytes fill one of 10; without the flag it completes with what has
// arrived.
func testStreamWaitAll(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	for _, before := range []bool{false, true} {
		buf := make([]byte, 10)
		if before {
			s.send(5)
			s.arrives(5)
		}
		req := s.posted(s.ba.StreamRecv(buf, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll}))
		if !before {
			s.send(5)
		}
		s.settle()
		if req.Done() {
			t.Fatal("done with half of it")
		}
		if n, err := req.RecvLength(); n != 0 || !errors.Is(err, ucs.InProgress) {
			t.Errorf("while it runs: %d, %v", n, err)
		}
		s.send(5)
		s.got(0, req, nil)
		s.check("all", buf)
	}
	// Without the flag the first bytes complete it.
	buf := make([]byte, 10)
	req := s.posted(s.ba.StreamRecv(buf, nil))
	s.send(5)
	if n := s.got(0, req, nil); n != 5 {
		t.Errorf("%d bytes, want 5", n)
	}
	s.check("some", buf[:5])
}

// testStreamCompletion checks the arguments of the callbacks, and that they do not run for
// operations that complete in the call.
func testStreamCompletion(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	calls := 0
	p := &ucp.RequestParams{UserData: "mine", OnStreamRecv: func(r *ucp.Request, err error, n int, data any) {
		if calls++; r == nil || err != nil || n != 8 || data != "mine" {
			t.Errorf("the callback got %v, %v, %d, %v", r, err, n, data)
		}
	}}
	buf := make([]byte, 16)
	req := s.posted(s.ba.StreamRecv(buf, p))
	s.send(8)
	if n := s.got(0, req, nil); n != 8 || calls != 1 {
		t.Errorf("%d bytes, %d calls", n, calls)
	}
	s.check("bytes", buf[:8])

	s.send(8)
	s.arrives(8)
	if n, req, err := s.ba.StreamRecv(buf, p); n != 8 || req != nil || err != nil || calls != 1 {
		t.Fatalf("of what is here: %d, %v, %v, %d calls", n, req, err, calls)
	}
	s.check("bytes", buf[:8])

	// OpNoImmediate gives a request for it.
	s.send(8)
	s.arrives(8)
	q := *p
	q.Flags = ucp.OpNoImmediate
	n, req, err := s.ba.StreamRecv(buf, &q)
	if n != 0 || req == nil || err != nil || !req.Done() || calls != 2 {
		t.Fatalf("not immediate: %d, %v, %v, %d calls", n, req, err, calls)
	}
	s.check("bytes", buf[:s.got(0, req, nil)])

	// The caller's request is unchanged if it is not needed, and used otherwise.
	own := new(ucp.Request)
	q = ucp.RequestParams{Request: own}
	s.send(8)
	s.arrives(8)
	if n, req, err := s.ba.StreamRecv(buf, &q); n != 8 || req != nil || err != nil {
		t.Fatalf("with an own request: %d, %v, %v", n, req, err)
	}
	s.check("bytes", buf[:8])
	if req := s.posted(s.ba.StreamRecv(buf, &q)); req != own {
		t.Fatal("another request came back")
	}
	s.send(8)
	s.until("an own request", own.Done)
	if n, err := own.RecvLength(); n != 8 || err != nil {
		t.Fatalf("an own request: %d, %v", n, err)
	}
	s.check("bytes", buf[:8])

	// Sends.
	var o outcome
	req, err = s.ab.StreamSend(s.next(8), &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.onSend, UserData: 5})
	s.must(req, err)
	if o.once(t); o.err != nil || o.data != 5 {
		t.Errorf("the callback got %v, %v", o.err, o.data)
	}
	s.recv(buf, nil)
}

// testStreamForced checks that UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL completes an operation in the call
// or has no effect.
func testStreamForced(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	s.send(1)
	s.recv(make([]byte, 1), nil)
	force := &ucp.RequestParams{Flags: ucp.OpForceImmediate}
	all := &ucp.RequestParams{Flags: ucp.OpForceImmediate, StreamFlags: ucp.StreamRecvWaitAll}
	refused := func(what string, req *ucp.Request, err error) {
		t.Helper()
		if req != nil || !errors.Is(err, ucs.ErrNoResource) {
			t.Errorf("%s: %v, %v, want no resource", what, req, err)
		}
	}
	buf := make([]byte, 10)
	_, req, err := s.ba.StreamRecv(buf, force)
	refused("a receive of nothing", req, err)
	s.inTheCall(s.ab.StreamSend(s.next(8), force))
	s.inTheCall(s.ab.StreamSend(nil, force))
	req, err = s.ab.StreamSend(make([]byte, 1<<20), force)
	refused("a large send", req, err)
	s.arrives(8)
	_, req, err = s.ba.StreamRecv(buf, all)
	refused("a receive of more than there is", req, err)
	n, req, err := s.ba.StreamRecv(buf[:4], all)
	if n != 4 || req != nil || err != nil {
		t.Fatalf("a receive of what is here: %d, %v, %v", n, req, err)
	}
	s.check("half", buf[:4])
	if n, req, err = s.ba.StreamRecv(buf, force); n != 4 || req != nil || err != nil {
		t.Fatalf("the rest: %d, %v, %v", n, req, err)
	}
	s.check("the rest", buf[:4])
	s.settle()
	if len(s.poll(1)) != 0 {
		t.Error("a refused send has arrived")
	}
}

// testStreamData checks StreamRecvData, alone and mixed with receives.
func testStreamData(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	if d, err := s.ba.StreamRecvData(); d.Bytes() != nil || err != nil {
		t.Fatalf("of nothing: %v, %v", d.Bytes(), err)
	}
	var kept []ucp.StreamData
	for _, n := range streamLengths {
		s.send0(n)
	}
	buf := make([]byte, 1000)
	for i := 0; s.read < s.sent; i++ {
		if i%3 == 2 {
			s.recv(buf[:1+i%len(buf)], nil)
			continue
		}
		d, err := s.ba.StreamRecvData()
		if err != nil {
			t.Fatal(err)
		}
		if d.Bytes() == nil {
			s.ready()
			continue
		}
		s.check("data", d.Bytes())
		if kept = append(kept, d); i%2 == 0 {
			kept[i%len(kept)].Release()
			kept[i%len(kept)].Release() // has no effect
		}
	}
	if n := s.b.Stats().UnexpectedBytes; n != 0 {
		t.Errorf("%d bytes are charged to the peer", n)
	}
	for _, d := range kept {
		d.Release()
	}
	ucp.StreamData{}.Release()

	// New data goes to the posted receive.
	one := make([]byte, 1)
	req := s.posted(s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Elements(make([]byte, 8), 8)}))
	s.send(5)
	s.settle()
	if d, err := s.ba.StreamRecvData(); d.Bytes() != nil || err != nil || len(s.poll(1)) != 0 {
		t.Errorf("part of an element that is waited for: %v, %v", d.Bytes(), err)
	}
	s.b.Cancel(req)
	req.Free()
	s.recv(one, nil)
	d, err := s.ba.StreamRecvData()
	if err != nil || len(d.Bytes()) != 4 {
		t.Fatalf("the rest: %v, %v", d.Bytes(), err)
	}
	s.check("the rest", d.Bytes())
	d.Release()
}

// testStreamCancel checks that a waiting receive can be canceled. Its buffer keeps what it has got,
// its length says how much, and the next receive continues from there.
func testStreamCancel(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	told := 0
	p := ucp.RequestParams{OnStreamRecv: func(_ *ucp.Request, err error, n int, _ any) {
		if told++; !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("told %v", err)
		}
	}}
	canceled := func(req *ucp.Request, want int) {
		t.Helper()
		s.b.Cancel(req)
		if n, err := req.RecvLength(); n != want || !errors.Is(err, ucs.ErrCanceled) {
			t.Fatalf("canceled: %d, %v, want %d bytes", n, err, want)
		}
		s.b.Cancel(req)
		req.Free()
	}
	buf := make([]byte, 16)
	canceled(s.posted(s.ba.StreamRecv(buf, &p)), 0)

	q := p
	q.StreamFlags = ucp.StreamRecvWaitAll
	req := s.posted(s.ba.StreamRecv(buf, &q))
	other := make([]byte, 4)
	next := s.posted(s.ba.StreamRecv(other, nil))
	s.send(5)
	s.settle()
	canceled(req, 5)
	s.check("what had come", buf[:5])
	s.send(4)
	s.got(0, next, nil)
	s.check("the next", other)

	// A part of an element goes to the next receive, at once.
	q = p
	q.Buffer = ucp.Elements(buf, 8)
	req = s.posted(s.ba.StreamRecv(nil, &q))
	next = s.posted(s.ba.StreamRecv(other, nil))
	s.send(4)
	s.settle()
	if next.Done() {
		t.Fatal("a receive was overtaken")
	}
	canceled(req, 0)
	s.got(0, next, nil)
	s.check("the next", other)
	if told != 3 {
		t.Errorf("callbacks ran %d times", told)
	}
	// A receive that is complete is not changed.
	req = s.posted(s.ba.StreamRecv(other, nil))
	s.send(4)
	s.until("a receive", req.Done)
	s.b.Cancel(req)
	s.got(0, req, nil)
	s.check("one that is over", other)
}

// testStreamContext checks that a wait that ends early gives the buffer back and loses nothing.
func testStreamContext(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	buf := make([]byte, 10)
	early := func(n int, err error, want int) {
		t.Helper()
		if n != want || !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d, %v, want %d bytes", n, err, want)
		}
		s.check("what had come", buf[:n])
	}
	n, err := s.ba.StreamRecvWait(over, buf)
	early(n, err, 0)
	n, err = s.ba.StreamRecvFullWait(over, buf)
	early(n, err, 0)
	s.send(5)
	s.arrives(5)
	n, err = s.ba.StreamRecvFullWait(over, buf)
	early(n, err, 5)
	s.send(7)
	s.arrives(7)
	if n, err = s.ba.StreamRecvWait(over, buf[:3]); n != 3 || err != nil {
		t.Fatalf("of what is here: %d, %v", n, err)
	}
	s.check("some", buf[:3])
	if n, err = s.ba.StreamRecvFullWait(over, buf[:4]); n != 4 || err != nil {
		t.Fatalf("of what is here: %d, %v", n, err)
	}
	s.check("all", buf[:4])
	if n, err = s.ba.StreamRecvWait(over, nil); n != 0 || err != nil {
		t.Fatalf("of nothing: %d, %v", n, err)
	}
	if err := s.ab.StreamSendWait(over, nil); err != nil {
		t.Fatalf("sending nothing: %v", err)
	}
}

// testStreamUnpackFails checks that the error of a datatype ends its receive, and that the stream
// continues after the bytes that the datatype has got. Every state is finished.
func testStreamUnpackFails(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	d := newSlices()
	d.unpackErr = errUnpack
	for _, before := range []bool{false, true} {
		if before {
			s.send(5)
			s.arrives(5)
		}
		buf := make([]byte, 5)
		n, req, err := s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, buf, 5)})
		if !before {
			s.send(5)
			s.until("a receive", req.Done)
		}
		if req != nil {
			n, err = req.RecvLength()
			req.Free()
		}
		if n != 0 || !errors.Is(err, errUnpack) {
			t.Errorf("%d, %v", n, err)
		}
		s.read += 5
	}
	s.send(5)
	s.recv(make([]byte, 5), nil)
	// A part of what was asked for.
	d.unpackErr = nil
	s.send(5)
	buf := make([]byte, 9)
	s.check("generic", buf[:s.got(s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, buf, 9)}))])
	req := s.posted(s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, buf, 9)}))
	s.b.Cancel(req)
	req.Free()
	if d.started != 4 || d.finished != 4 {
		t.Errorf("%d states started, %d finished", d.started, d.finished)
	}
}

// testStreamSendInside checks that what a callback sends while a longer piece is being sent goes
// out after it.
func testStreamSendInside(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	if !tr.loopback {
		s.ab = s.b.connect(s.b) // over self a send may deliver in the call
		s.ba, s.a = s.ab, s.b
	}
	s.send(1)
	s.recv(make([]byte, 1), nil)
	const long = 100_000
	first := make([]byte, 1)
	nested := 0
	var reqs []*ucp.Request
	var chain func(*ucp.Request, error, int, any)
	chain = func(*ucp.Request, error, int, any) {
		if nested++; nested > 3 {
			return
		}
		for _, n := range []int{8, 30_000} {
			req, err := s.ab.StreamSend(s.next(n), nil)
			if err != nil {
				t.Error(err)
			}
			reqs = append(reqs, req)
		}
		_, req, err := s.ba.StreamRecv(make([]byte, 10), &ucp.RequestParams{OnStreamRecv: chain, Flags: ucp.OpNoImmediate})
		if err != nil {
			t.Error(err)
		}
		reqs = append(reqs, req)
	}
	req := s.posted(s.ba.StreamRecv(first, &ucp.RequestParams{OnStreamRecv: chain}))
	send, err := s.ab.StreamSend(s.next(long), nil)
	s.must(send, err)
	s.must(req, nil)
	s.until("the callbacks", func() bool { return nested == 4 })
	for _, r := range reqs {
		s.must(r, nil)
	}
	s.check("the first", first)
	s.read += 30 // read in callbacks
	for s.read < s.sent {
		s.recv(make([]byte, 7000), nil)
	}
}

// testStreamRecvInside checks that a callback that receives gets the bytes after those that it was
// called for, even if they arrived in the same packet.
func testStreamRecvInside(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	bufs := [][]byte{make([]byte, 10), make([]byte, 20), make([]byte, 30)}
	k := 0
	var next func(*ucp.Request, error, int, any)
	var reqs []*ucp.Request
	next = func(_ *ucp.Request, err error, n int, _ any) {
		if err != nil || n != len(bufs[k]) {
			t.Errorf("receive %d: %d, %v", k, n, err)
		}
		if k++; k == len(bufs) {
			return
		}
		_, req, err := s.ba.StreamRecv(bufs[k], &ucp.RequestParams{
			OnStreamRecv: next, Flags: ucp.OpNoImmediate, StreamFlags: ucp.StreamRecvWaitAll})
		if err != nil {
			t.Error(err)
		}
		reqs = append(reqs, req)
	}
	reqs = append(reqs, s.posted(s.ba.StreamRecv(bufs[0], &ucp.RequestParams{OnStreamRecv: next, StreamFlags: ucp.StreamRecvWaitAll})))
	s.send(60)
	s.until("the receives", func() bool { return k == len(bufs) })
	for _, b := range bufs {
		s.check("a receive", b)
	}
	for _, req := range reqs {
		s.must(req, nil)
	}
}

// callingType is a datatype that makes a call while it unpacks.
type callingType struct {
	*sliceType
	call func()
}

func (d *callingType) StartUnpack(object any, count int) (ucp.UnpackState, error) {
	st, err := d.sliceType.StartUnpack(object, count)
	return callingState{st, d}, err
}

type callingState struct {
	ucp.UnpackState
	d *callingType
}

func (s callingState) Unpack(off int, src []byte) error {
	s.d.call()
	return s.UnpackState.Unpack(off, src)
}

// testStreamUnpackCalls checks that a datatype may make any call on the stream while it unpacks.
func testStreamUnpackCalls(t *testing.T, tr transport) {
	for name, call := range map[string]func(s *streams, req *ucp.Request){
		"nothing": func(*streams, *ucp.Request) {},
		"cancels": func(s *streams, req *ucp.Request) { s.b.Cancel(req) },
		"polls":   func(s *streams, _ *ucp.Request) { s.poll(1) },
		"takes": func(s *streams, _ *ucp.Request) {
			if d, err := s.ba.StreamRecvData(); d.Bytes() != nil || err != nil {
				s.Errorf("in the middle of a receive: %v, %v", d.Bytes(), err)
			}
		},
		"sends": func(s *streams, _ *ucp.Request) {
			req, err := s.ba.StreamSend([]byte("x"), nil)
			if err != nil {
				s.Error(err)
			}
			req.Free()
		},
		"closes": func(s *streams, _ *ucp.Request) { s.ba.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t, tr).streams()
			buf := make([]byte, 20)
			var req *ucp.Request
			var dt *ucp.GenericType
			d := &callingType{sliceType: newSlices(), call: func() { call(s, req) }}
			dt = ucp.NewGeneric(d)
			_, req, err := s.ba.StreamRecv(nil, &ucp.RequestParams{Buffer: ucp.Generic(dt, buf, 20), StreamFlags: ucp.StreamRecvWaitAll})
			if err != nil {
				t.Fatal(err)
			}
			s.must(s.ab.StreamSend(s.next(12), nil))
			s.settle()
			if name == "closes" {
				if _, err := req.RecvLength(); !errors.Is(err, ucs.ErrCanceled) {
					t.Errorf("closed: %v", err)
				}
			} else {
				s.must(s.ab.StreamSend(s.next(8), nil))
				s.until("a receive", req.Done)
				if n, err := req.RecvLength(); n != 20 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
				if !tr.loopback || name != "sends" {
					s.check("a receive", buf)
				}
			}
			req.Free()
			if d.started != 1 || d.finished != 1 {
				t.Errorf("%d states started, %d finished", d.started, d.finished)
			}
		})
	}
}

// testStreamPeerLost checks that data that has arrived can be read before receives return the
// error, as with a socket. Waiting receives end with the error and report what they have got.
func testStreamPeerLost(t *testing.T, tr transport) {
	s := newRig(t, tr).streamsWith(ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	var f failure
	s.ba.SetErrorHandler(f.onError)
	s.ba.SetUserData("mine")
	buf := make([]byte, 100)
	req := s.posted(s.ba.StreamRecv(buf, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll}))
	s.send(60)
	s.settle()
	s.a.close()
	s.until("the failure", func() bool { return s.ba.Err() != nil })
	s.until("the end of a receive", req.Done)
	n, err := req.RecvLength()
	if n != 60 || err == nil {
		t.Fatalf("the receive: %d, %v", n, err)
	}
	req.Free()
	s.check("what had come", buf[:n])
	if n, req, err := s.ba.StreamRecv(buf, nil); n != 0 || req != nil || !errors.Is(err, s.ba.Err()) {
		t.Errorf("a receive afterwards: %d, %v, %v", n, req, err)
	}
	if d, err := s.ba.StreamRecvData(); d.Bytes() != nil || !errors.Is(err, s.ba.Err()) {
		t.Errorf("data afterwards: %v, %v", d.Bytes(), err)
	}
	if req, err := s.ba.StreamSend(buf, nil); req != nil || !errors.Is(err, s.ba.Err()) {
		t.Errorf("a send afterwards: %v, %v", req, err)
	}
	if f.calls != 1 || f.arg != "mine" || f.ep != s.ba {
		t.Errorf("the handler: %+v", f)
	}

	// With unread data.
	s = newRig(t, tr).streamsWith(ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	s.send(60)
	s.arrives(60)
	s.a.close()
	s.until("the failure", func() bool { return s.ba.Err() != nil })
	if list := s.poll(2); len(list) != 1 || list[0].Endpoint != s.ba {
		t.Errorf("the endpoint is not listed: %v", list)
	}
	n, req, err = s.ba.StreamRecv(buf, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll})
	if n != 0 || req != nil || !errors.Is(err, s.ba.Err()) {
		t.Errorf("of more than there will be: %d, %v, %v", n, req, err)
	}
	if n, err := s.ba.StreamRecvWait(context.Background(), buf[:20]); n != 20 || err != nil {
		t.Fatalf("of what has come: %d, %v", n, err)
	}
	s.check("what had come", buf[:20])
	d, err := s.ba.StreamRecvData()
	if err != nil || len(d.Bytes()) != 40 {
		t.Fatalf("data that has come: %v, %v", d.Bytes(), err)
	}
	s.check("what had come", d.Bytes())
	if n, err := s.ba.StreamRecvWait(context.Background(), buf); n != 0 || !errors.Is(err, s.ba.Err()) {
		t.Errorf("behind it: %d, %v", n, err)
	}
	if err := s.ba.Close(); err != nil {
		t.Fatal(err)
	}
	d.Release()
}

// testStreamClose checks that closing an endpoint discards unread data and ends receives; data that
// the application has taken stays valid.
func testStreamClose(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	s.send(10)
	s.arrives(10)
	d, err := s.ba.StreamRecvData()
	if err != nil {
		t.Fatal(err)
	}
	s.send(20)
	s.arrives(20)
	s.must(s.ba.CloseAsync(nil))
	if len(s.poll(1)) != 0 {
		t.Error("a closed endpoint is listed")
	}
	if st := s.b.Stats(); st.UnexpectedBytes != 0 {
		t.Errorf("%d bytes are held", st.UnexpectedBytes)
	}
	buf := make([]byte, 8)
	if n, req, err := s.ba.StreamRecv(buf, nil); n != 0 || req != nil || !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("a receive: %d, %v, %v", n, req, err)
	}
	if d, err := s.ba.StreamRecvData(); d.Bytes() != nil || !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("data: %v, %v", d.Bytes(), err)
	}
	if req, err := s.ba.StreamSend(buf, nil); req != nil || !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("a send: %v, %v", req, err)
	}
	s.check("what was taken", d.Bytes())
	d.Release()

	s = newRig(t, tr).streams()
	s.send(1)
	s.recv(buf[:1], nil)
	req := s.posted(s.ba.StreamRecv(buf, nil))
	if err := s.ba.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := req.RecvLength(); n != 0 || !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("a receive of a closed endpoint: %d, %v", n, err)
	}

	// A flush close waits for the operations of the peer's endpoint, which may never end. Receives
	// of the closed endpoint end at once, as in C UCX.
	s = newRig(t, tr).streams()
	s.send(1)
	s.recv(buf[:1], nil)
	again := false
	req = s.posted(s.ba.StreamRecv(buf, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll, OnStreamRecv: func(_ *ucp.Request, err error, n int, _ any) {
		_, _, refused := s.ba.StreamRecv(buf, nil)
		again = n == 0 && errors.Is(err, ucs.ErrCanceled) && errors.Is(refused, ucs.ErrNotConnected)
	}}))
	closing, err := s.ba.CloseAsync(nil)
	if err != nil || !req.Done() || !again {
		t.Errorf("close: %v; its receive is done: %t, and was told: %t", err, req.Done(), again)
	}
	s.must(closing, err)
	if n, err := req.RecvLength(); n != 0 || !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("a receive of a closing endpoint: %d, %v", n, err)
	}
}

// testStreamWorkerClose checks that the worker releases all stream data when it is closed.
func testStreamWorkerClose(t *testing.T, tr transport) {
	s := newRig(t, tr).streams()
	s.send(10)
	s.arrives(10)
	d, err := s.ba.StreamRecvData()
	if err != nil {
		t.Fatal(err)
	}
	s.send(5000)
	s.arrives(5000)
	req := s.posted(s.ab.StreamRecv(make([]byte, 6000), &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll}))
	s.b.close()
	if s.a != s.b {
		s.a.close()
	}
	if _, err := req.RecvLength(); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("a receive: %v", err)
	}
	d.Release() // has no effect
	if n, err := s.b.StreamPoll(make([]ucp.StreamReady, 1)); n != 0 || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("poll of a closed worker: %d, %v", n, err)
	}
}
