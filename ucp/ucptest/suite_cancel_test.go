//go:build linux

package ucptest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Receives that are canceled while their message arrives. Either the receive has the message, or
// the next receive of the same tag gets it, and the buffer is not written to after the end of the
// receive.
var cancelCases = []testCase{
	{"cancel against arrival", everySwitch, testCancelArrival},
	{"cancel of half a message, and of it again", twoSides, testCancelHalf},
	{"a canceled message goes to a receive that is posted", twoSides, testCancelPosted},
	{"a canceled message in pieces of memory", twoSides, testCancelPieces},
	{"contexts that end against arrival", fewSwitches | twoSides, testContextArrival},
	{"a send whose context ends", everySwitch, testContextSend},
	{"a send that has not begun when its context ends", twoSides, testContextUnsent},
	{"a fetch whose context ends", fewSwitches, testContextFetch},
	{"a stream whose readers give up", fewSwitches | twoSides, testContextStream},
	{"a queue whose readers give up", twoSides, testContextQueue},
}

// cancelSizes are around the thresholds of the protocols: short, with copies, without copies,
// fragments, rendezvous.
var cancelSizes = []int{0, 1, 8, 100, 1000, 4000, 8000, 9000, 20_000, 30_000, 66_000, 100_000, 300_000}

// testCancelArrival cancels receives at random moments of the arrival of a message.
func testCancelArrival(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	dice := rand.New(rand.NewPCG(1, 2))
	some := func(most int) {
		for range dice.IntN(most + 1) {
			r.sides[dice.IntN(len(r.sides))].Progress()
		}
	}
	canceled := 0
	for k := range long(1000, 52) {
		n := cancelSizes[k%len(cancelSizes)]
		src, buf := ucttest.Pattern(n, uint64(k)), make([]byte, n)
		tag := ucp.Tag(7)
		send := func() *ucp.Request {
			start := ep.TagSend
			if dice.IntN(4) == 0 {
				start = ep.TagSendSync
			}
			req, err := start(tag, src, nil)
			if err != nil {
				t.Fatal(err)
			}
			return req
		}
		var sreq *ucp.Request
		late := dice.IntN(3) == 0
		if late {
			sreq = send()
			some(4)
		}
		rreq, err := b.TagRecv(tag, ucp.FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !late {
			some(2)
			sreq = send()
		}
		for rreq != nil {
			some(1 << dice.IntN(6))
			b.Cancel(rreq)
			r.until("a receive that was canceled", rreq.Done)
			err := rreq.Err()
			rreq.Free()
			if err == nil {
				break
			}
			if !errors.Is(err, ucs.ErrCanceled) {
				t.Fatalf("round %d, %d bytes: %v", k, n, err)
			}
			canceled++
			old, was := buf, bytes.Clone(buf)
			buf = make([]byte, n)
			if rreq, err = b.TagRecv(tag, ucp.FullMask, buf, nil); err != nil {
				t.Fatal(err)
			}
			if dice.IntN(2) == 0 { // otherwise it is canceled, too
				r.must(rreq, nil)
				rreq = nil
			}
			if !bytes.Equal(old, was) {
				t.Fatalf("round %d, %d bytes: the buffer of a canceled receive is written to", k, n)
			}
		}
		ucttest.SameBytes(t, "message", buf, src)
		r.must(sreq, nil)
		if info, ok := b.TagPeek(0, 0); ok {
			t.Fatalf("round %d, %d bytes: another message, %+v", k, n, info)
		}
	}
	if held := b.Stats().UnexpectedBytes; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	t.Logf("%d receives were canceled", canceled)
}

// half sends a message in fragments and progresses until the buffer of a receive has a part of it,
// but not all.
func (r *rig) half(ep *ucp.Endpoint, to *side, tag ucp.Tag, src []byte, post func() *ucp.Request, begun func() bool) (rreq, sreq *ucp.Request) {
	r.Helper()
	rreq = post()
	sreq = r.started(ep.TagSend(tag, src, nil))
	r.until("the first fragment", begun)
	if rreq.Done() {
		r.Fatal("the whole message is here")
	}
	return rreq, sreq
}

// narrow has long messages sent in many fragments, of which few are in flight at a time.
var narrow = []setting{{"RNDV_THRESH", "inf"}, {"TCP_SNDBUF", "16k"}, {"TCP_RCVBUF", "16k"}}

// testCancelHalf checks that a receive that has got a part of its message is canceled in the call.
// The buffer belongs to the caller then, and the next receive gets the message.
func testCancelHalf(t *testing.T, tr transport) {
	r := newRig(t, tr.with(narrow...))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	src := ucttest.Pattern(endless, 3)
	buf := make([]byte, len(src))
	recv := func() *ucp.Request { return r.started(b.TagRecv(1, ucp.FullMask, buf, nil)) }
	rreq, sreq := r.half(ep, b, 1, src, recv, func() bool { return buf[0] != 0 })
	b.Cancel(rreq)
	if !rreq.Done() || !errors.Is(rreq.Err(), ucs.ErrCanceled) {
		t.Fatalf("canceled: %v", rreq.Err())
	}
	b.Cancel(rreq)
	rreq.Free()
	clear(buf)
	next := make([]byte, len(src))
	for range 2 { // posted, and canceled before the message is complete
		rreq = r.started(b.TagRecv(1, ucp.FullMask, next, nil))
		for range 3 {
			r.progress()
		}
		if b.Cancel(rreq); !rreq.Done() {
			t.Fatal("a receive goes on that was canceled")
		}
		rreq.Free()
	}
	r.must(sreq, nil)
	r.must(b.TagRecv(1, ucp.FullMask, next, nil))
	ucttest.SameBytes(t, "message", next, src)
	if !bytes.Equal(buf, make([]byte, len(buf))) {
		t.Error("the buffer of a canceled receive is written to")
	}
	r.sendAndTake(ep, b, 1, message(1)) // nothing else is left
	if held := b.Stats().UnexpectedBytes; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// testCancelPosted checks that the message of a canceled receive goes to a receive that is already
// posted when the message is complete, and that later messages go to later receives.
func testCancelPosted(t *testing.T, tr transport) {
	r := newRig(t, tr.with(narrow...))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	src, second := ucttest.Pattern(endless, 4), message(5)
	buf, next, last := make([]byte, len(src)), make([]byte, len(src)), make([]byte, len(second))
	recv := func() *ucp.Request { return r.started(b.TagRecv(1, ucp.FullMask, buf, nil)) }
	rreq, sreq := r.half(ep, b, 1, src, recv, func() bool { return buf[0] != 0 })
	nreq := r.started(b.TagRecv(1, ucp.FullMask, next, nil))
	lreq := r.started(b.TagRecv(0, 0, last, nil))
	b.Cancel(rreq)
	if err := rreq.Err(); !errors.Is(err, ucs.ErrCanceled) {
		t.Fatalf("canceled: %v", err)
	}
	rreq.Free()
	ssecond, err := ep.TagSend(1, second, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.must(sreq, nil)
	r.must(nreq, nil)
	ucttest.SameBytes(t, "message", next, src)
	r.must(ssecond, nil)
	r.must(lreq, nil)
	ucttest.SameBytes(t, "second message", last, second)
}

// testCancelPieces checks that a part of a message that has arrived in several buffers is kept when
// the receive is canceled. A receive into a generic datatype cannot be read back, so it goes on.
func testCancelPieces(t *testing.T, tr transport) {
	r := newRig(t, tr.with(narrow...))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	src := ucttest.Pattern(endless, 6)
	buf := make([]byte, len(src))
	pieces := ucp.IOV(buf[:1000], buf[1000:1007], buf[1007:])
	rreq, sreq := r.half(ep, b, 1, src, func() *ucp.Request {
		return r.started(b.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{Buffer: pieces}))
	}, func() bool { return buf[0] != 0 })
	b.Cancel(rreq)
	if err := rreq.Err(); !errors.Is(err, ucs.ErrCanceled) {
		t.Fatalf("canceled: %v", err)
	}
	rreq.Free()
	clear(buf)
	r.must(sreq, nil)
	r.must(b.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{Buffer: pieces}))
	ucttest.SameBytes(t, "message", buf, src)
}

// testContextArrival ends contexts of blocking calls at random moments of the arrival of a message.
func testContextArrival(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	type order struct {
		n, steps int
		seed     uint64
		give     context.CancelFunc
	}
	var returned atomic.Bool    // the blocking call has returned
	standStill := func(n int) { // lets the receiver go on, if it can
		for ; n > 0 && !returned.Load(); n-- {
			runtime.Gosched()
		}
	}
	orders, over := make(chan order), make(chan error, 1)
	carryOut := func(o order) error {
		if o.steps < 0 {
			o.give()
			standStill(-o.steps)
		}
		req, err := ep.TagSend(1, ucttest.Pattern(o.n, o.seed), nil)
		if err != nil {
			return err
		}
		for step := 0; step <= o.steps || !req.Done(); step++ {
			if step == o.steps {
				o.give()
				standStill(3000)
			}
			if a.Progress() == 0 {
				runtime.Gosched()
			}
		}
		err = req.Err()
		req.Free()
		return err
	}
	var ended sync.WaitGroup
	ended.Add(1)
	go func() { // progresses a
		defer ended.Done()
		for {
			select {
			case o, more := <-orders:
				if !more {
					return
				}
				over <- carryOut(o)
				o.give()
			default: // what was sent may need more progress
				if a.Progress() == 0 {
					runtime.Gosched()
				}
			}
		}
	}()
	defer ended.Wait()
	defer close(orders)
	dice := rand.New(rand.NewPCG(3, 4))
	canceled := 0
	for k := range long(300, 39) {
		n := cancelSizes[k%len(cancelSizes)]
		ctx, cancel := context.WithCancel(t.Context())
		buf := make([]byte, n)
		returned.Store(false)
		steps := dice.IntN(1 << dice.IntN(10))
		if dice.IntN(4) == 0 {
			steps = -1 - dice.IntN(3000)
		}
		orders <- order{n, steps, uint64(k), cancel}
		info, err := b.TagRecvWait(ctx, 1, ucp.FullMask, buf)
		returned.Store(true)
		if err != nil {
			if !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.Canceled) {
				t.Fatalf("round %d, %d bytes: %v", k, n, err)
			}
			canceled++
			old, was := buf, bytes.Clone(buf)
			buf = make([]byte, n)
			if info, err = b.TagRecvWait(t.Context(), 1, ucp.FullMask, buf); err != nil {
				t.Fatalf("round %d, %d bytes: %v", k, n, err)
			}
			if !bytes.Equal(old, was) {
				t.Fatalf("round %d, %d bytes: the buffer is written to behind the call", k, n)
			}
		}
		if info.Length != n {
			t.Fatalf("round %d: %d bytes received, want %d", k, info.Length, n)
		}
		ucttest.SameBytes(t, "message", buf, ucttest.Pattern(n, uint64(k)))
		for done := false; !done; {
			select {
			case err := <-over:
				if done = true; err != nil {
					t.Fatal(err)
				}
			default:
				b.Progress()
				runtime.Gosched()
			}
		}
		if info, ok := b.TagPeek(0, 0); ok {
			t.Fatalf("round %d, %d bytes: another message, %+v", k, n, info)
		}
	}
	t.Logf("%d receives were canceled", canceled)
}

// afterLooks is a context that ends when it has been checked a number of times.
type afterLooks struct {
	context.Context
	left atomic.Int32
	end  context.CancelFunc
}

func newAfterLooks(n int) *afterLooks {
	ctx, end := context.WithCancel(context.Background())
	c := &afterLooks{Context: ctx, end: end}
	if c.left.Store(int32(n)); n == 0 {
		end()
	}
	return c
}

func (c *afterLooks) Err() error {
	if c.left.Add(-1) < 0 {
		c.end()
	}
	return c.Context.Err()
}

func (c *afterLooks) Done() <-chan struct{} {
	_ = c.Err()
	return c.Context.Done()
}

// testContextSend checks that after a blocking send has been canceled its buffer may be changed,
// unless the error says otherwise, and that the message arrives unchanged or not at all.
func testContextSend(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	for k, n := range append(cancelSizes, endless) {
		for sync := range 2 {
			src := ucttest.Pattern(n, uint64(k))
			want := bytes.Clone(src)
			send := ep.TagSendWait
			if sync == 1 {
				send = ep.TagSendSyncWait
			}
			err := send(ended(), 1, src)
			if !errors.Is(err, ucs.InProgress) {
				clear(src)
			}
			switch {
			case errors.Is(err, ucs.ErrCanceled):
				r.settle()
				if info, ok := b.TagPeek(0, 0); ok {
					t.Fatalf("%d bytes: a message that was canceled arrives, %+v", n, info)
				}
				continue
			case err != nil && !errors.Is(err, context.Canceled):
				t.Fatalf("%d bytes: %v", n, err)
			}
			buf := make([]byte, n)
			r.must(b.TagRecv(1, ucp.FullMask, buf, nil))
			ucttest.SameBytes(t, sizeText("message", n), buf, want)
			runtime.KeepAlive(src)
		}
	}
}

// testContextUnsent checks that a canceled send that waits for the connection is not sent.
func testContextUnsent(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
	a, b := r.pair()
	ep := a.connect(b)
	if err := ep.TagSendSyncWait(ended(), 1, message(1)); !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, errGivenUp) {
		t.Errorf("a send that waits for the peer's answer: %v", err)
	}
	r.sendAndTake(ep, b, 2, message(2))
	r.settle()
	if info, ok := b.TagPeek(0, 0); ok {
		t.Errorf("a message that was canceled arrives, %+v", info)
	}
}

// testContextFetch checks that data of a canceled get is in the buffer when the call returns, or
// never written.
func testContextFetch(t *testing.T, tr transport) {
	r, a, ep, w := blockingRig(t, tr, endless)
	copy(w.Bytes(), ucttest.Pattern(endless, 9))
	r.must(ep.Flush(nil))
	for _, n := range append(cancelSizes, endless) {
		buf := make([]byte, n)
		switch err := ep.GetWait(newAfterLooks(n%3), buf, w.addr, w.key); {
		case err == nil:
			ucttest.SameBytes(t, sizeText("get", n), buf, w.Bytes()[:n])
		case !errors.Is(err, ucs.ErrCanceled):
			t.Fatalf("%d bytes: %v", n, err)
		default:
			clear(buf)
			r.settle()
			if !bytes.Equal(buf, make([]byte, n)) {
				t.Fatalf("%d bytes: the buffer is written to behind the call", n)
			}
		}
		src := ucttest.Pattern(n, 10)
		if err := ep.PutWait(ended(), src, w.addr, w.key); err == nil || !errors.Is(err, ucs.ErrCanceled) {
			if !errors.Is(err, ucs.InProgress) {
				clear(src)
			}
			r.must(a.Flush(nil))
			ucttest.SameBytes(t, sizeText("put", n), w.Bytes()[:n], ucttest.Pattern(n, 10))
			runtime.KeepAlive(src)
		}
	}
	r.must(ep.Put(make([]byte, 8), w.addr&^7+8, w.key, nil))
	r.must(ep.Flush(nil))
	for k := range 50 {
		before := uint64(k)
		switch old, err := ucp.FetchAddWait[uint64](newAfterLooks(k%2), ep, w.addr&^7+8, w.key, 1); {
		case errors.Is(err, ucs.ErrCanceled):
			r.must(ucp.PostAdd[uint64](ep, w.addr&^7+8, w.key, 1, nil))
			r.must(ep.Flush(nil))
		case err != nil || old != before:
			t.Fatalf("%d, %v, want %d", old, err, before)
		}
	}
}

// testContextStream checks that canceled reads of a stream neither lose nor duplicate bytes.
func testContextStream(t *testing.T, tr transport) {
	r := newRig(t, tr)
	cp := ucp.ContextParams{Features: features | ucp.FeatureStream}
	a, b := r.openWith(cp, ucp.WorkerParams{}), r.openWith(cp, ucp.WorkerParams{})
	ab, ba := a.connect(b), b.connect(a)
	src := ucttest.Pattern(1<<20, 11)
	sreq, err := ab.StreamSend(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(5, 6))
	got := 0
	for quiet := 0; got < len(src); quiet++ {
		if quiet > 100_000 {
			t.Fatalf("%d bytes of %d", got, len(src))
		}
		if a.Progress() > 0 {
			quiet = 0
		}
		receive := ba.StreamRecvWait
		if dice.IntN(2) == 0 {
			receive = ba.StreamRecvFullWait
		}
		buf := make([]byte, 1+dice.IntN(min(20_000, len(src)-got)))
		n, err := receive(newAfterLooks(dice.IntN(2)), buf)
		if err != nil && !errors.Is(err, ucs.ErrCanceled) {
			t.Fatal(err)
		}
		ucttest.SameBytes(t, "part of the stream", buf[:n], src[got:got+n])
		got += n
	}
	r.must(sreq, nil)
}

// testContextQueue checks that no message of a queue is lost by canceled calls.
func testContextQueue(t *testing.T, tr transport) {
	r := newRig(t, tr)
	cp := ucp.ContextParams{Features: features | ucp.FeatureAM}
	a, b := r.openWith(cp, ucp.WorkerParams{}), r.openWith(cp, ucp.WorkerParams{})
	ep := a.connect(b)
	q, err := b.NewAMQueue(ucp.AMQueueParams{ID: 5, Offers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for k := range long(1000, 100) {
		n := cancelSizes[k%len(cancelSizes)]
		src := ucttest.Pattern(n, uint64(k))
		sreq, err := ep.AMSend(5, nil, src, nil)
		if err != nil {
			t.Fatal(err)
		}
		var m *ucp.AMMessage
		for quiet := 0; m == nil; quiet++ {
			if a.Progress() > 0 {
				quiet = 0
			}
			if m, err = q.Next(newAfterLooks(k % 3)); err != nil && (!errors.Is(err, ucs.ErrCanceled) || m != nil || quiet > 100_000) {
				t.Fatal(err)
			}
		}
		if m.Offered() { // the data is fetched while the sender progresses
			buf := make([]byte, n)
			r.must(m.Recv(buf, nil))
			ucttest.SameBytes(t, "active message", buf, src)
		} else {
			ucttest.SameBytes(t, "active message", m.Data(), src)
			m.Release()
		}
		r.must(sreq, nil)
	}
}

// TestPanicWhileReceiving checks that a blocking receive that raises the panic of a callback takes
// no message afterwards.
func TestPanicWhileReceiving(t *testing.T) {
	for _, name := range []string{"tcp", "posix", "tcp, shared", "posix and cma, shared"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name))
			a, b := r.pair()
			ep := a.connect(b)
			r.warm(ep, b)
			req := r.started(b.TagRecv(2, ucp.FullMask, make([]byte, 16), &ucp.RequestParams{
				OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) { panic(errGivenUp) },
			}))
			r.must(ep.TagSend(2, message(2), nil))
			buf := make([]byte, 16)
			func() {
				defer func() {
					if p, ok := recover().(*ucp.CallbackPanic); !ok || p.Value != errGivenUp {
						t.Errorf("no panic, but %v", p)
					}
				}()
				_, err := b.TagRecvWait(t.Context(), 1, ucp.FullMask, buf)
				t.Errorf("returned: %v", err)
			}()
			req.Free()
			r.sendAndTake(ep, b, 1, message(1))
			if !bytes.Equal(buf, make([]byte, 16)) {
				t.Error("the buffer is written to behind the call")
			}
		})
	}
}
