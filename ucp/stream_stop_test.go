package ucp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// floods starts to send the bytes b over the stream of each endpoint and returns the requests.
func floods(t *testing.T, b []byte, eps ...*Endpoint) (sends []*Request) {
	t.Helper()
	for _, ep := range eps {
		for i := 0; i < len(b); {
			n := min(1+rand.IntN(100_000), len(b)-i)
			req, err := ep.StreamSend(b[i:i+n], nil)
			if err != nil {
				t.Fatal(err)
			}
			sends = append(sends, req)
			i += n
		}
	}
	return sends
}

func allDone(list []*Request) bool {
	for _, r := range list {
		if !r.Done() {
			return false
		}
	}
	return true
}

// flood is a number of bytes that far exceeds what connections hold, and UCX_STREAM_MAX_UNREAD.
const flood = 4 << 20

// stopped progresses workers until each worker in by has stopped reading from a peer, and nothing
// arrives any more.
func stopped(w [2]*Worker, by ...*Worker) {
	for _, one := range by {
		progressed(w, func() bool { return one.Stats().Stopped > 0 })
	}
	settle(w)
}

// TestUnreadStreamStops: a peer that sends more stream data than is read has to wait, and continues
// when half of what is held has been read. Nothing is lost, and memory is bounded.
func TestUnreadStreamStops(t *testing.T) {
	held := ledger.Total(ledger.Bytes)
	w, ep := overTCP(t, [2]string{"STREAM_MAX_UNREAD", "256k"})
	src := make([]byte, flood)
	for i := range src {
		src[i] = byte(i * 7 >> 3)
	}
	sends := floods(t, src, ep[0])
	stopped(w, w[1])
	st := w[1].Stats()
	if st.Stopped != 1 || st.UnexpectedBytes < 256<<10 || st.UnexpectedBytes > 512<<10 {
		t.Errorf("stopped %d times, %d bytes are held", st.Stopped, st.UnexpectedBytes)
	}
	if allDone(sends) {
		t.Error("the sender does not wait")
	}
	got := make([]byte, 0, flood)
	buf := make([]byte, 10_000)
	for len(got) < flood {
		if !progressed(w, func() bool { return ep[1].stream.unread > 0 }) {
			t.Fatalf("nothing comes after %d bytes", len(got))
		}
		n, req, err := ep[1].StreamRecv(buf, nil)
		if n == 0 || req != nil || err != nil {
			t.Fatal(n, req, err)
		}
		got = append(got, buf[:n]...)
		if most := w[1].Stats().UnexpectedBytes; most > 512<<10 {
			t.Fatalf("%d bytes are held", most)
		}
	}
	if !bytes.Equal(got, src) {
		t.Error("other bytes have come")
	}
	if !progressed(w, func() bool { return allDone(sends) }) {
		t.Error("the sends do not end")
	}
	if st = w[1].Stats(); st.UnexpectedBytes != 0 || len(w[1].stream.stopped) != 0 {
		t.Errorf("%d bytes are held, %d streams are stopped", st.UnexpectedBytes, len(w[1].stream.stopped))
	}
	w[0].Close()
	w[1].Close()
	if now := ledger.Total(ledger.Bytes); now != held {
		t.Errorf("%d bytes are charged, %d were before", now, held)
	}
}

// TestStoppedStreamsLetAnswersThrough: two peers read nothing of each other's stream until the
// answer to a flush has arrived. The answers arrive although both have stopped reading, also if the
// flushes start before that.
func TestStoppedStreamsLetAnswersThrough(t *testing.T) {
	src := make([]byte, flood)
	for _, first := range []bool{false, true} {
		w, ep := overTCP(t, [2]string{"STREAM_MAX_UNREAD", "256k"})
		sends := floods(t, src, ep[0], ep[1])
		if !first {
			stopped(w, w[0], w[1])
			if allDone(sends) || w[0].Stats().Stopped == 0 || w[1].Stats().Stopped == 0 {
				t.Fatalf("not both are stopped: %+v, %+v", w[0].Stats(), w[1].Stats())
			}
		}
		var flushes [2]*Request
		for i := range ep {
			var err error
			if flushes[i], err = ep[i].Flush(nil); err != nil {
				t.Fatal(err)
			}
		}
		var read [2]int
		buf := make([]byte, 1<<20)
		if !progressed(w, func() bool {
			for i := range ep {
				if flushes[i].Done() && ep[i].stream.unread > 0 {
					n, _, err := ep[i].StreamRecv(buf, nil)
					if err != nil {
						t.Fatal(err)
					}
					read[i] += n
				}
			}
			return read[0] == flood && read[1] == flood && allDone(sends)
		}) {
			t.Fatalf("flush first %v: the peers wait for each other", first)
		}
		if ep[0].flushes != 0 || ep[1].flushes != 0 {
			t.Error("flushes are counted wrong")
		}
		w[0].Close()
		w[1].Close()
	}
}

// TestFlushOfOneSide checks that a worker that has stopped reading and then flushes continues to
// read while it waits.
func TestFlushOfOneSide(t *testing.T) {
	w, ep := overTCP(t, [2]string{"STREAM_MAX_UNREAD", "256k"})
	sends := floods(t, make([]byte, flood), ep[0])
	settle(w)
	for range 2 {
		req, err := w[1].Flush(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w[1].wake.arm(); req != nil && len(w[1].stream.stopped) > 0 && !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("the worker may sleep: %v", err)
		}
		if !progressed(w, req.Done) {
			t.Fatal("a flush waits for what nobody reads")
		}
	}
	ep[1].stream.discard()
	if !progressed(w, func() bool { return allDone(sends) || ep[1].stream.stopped != nil }) {
		t.Error("the sends do not go on")
	}
}

// TestCloseOfStoppedStream checks that the sender can complete its sends when the receiver closes
// an endpoint whose stream it has stopped reading.
func TestCloseOfStoppedStream(t *testing.T) {
	w, ep := overTCP(t, [2]string{"STREAM_MAX_UNREAD", "256k"})
	sends := floods(t, make([]byte, flood), ep[0])
	if !progressed(w, func() bool { return w[1].Stats().Stopped == 1 }) {
		t.Fatal("not stopped")
	}
	settle(w)
	req, err := ep[1].CloseAsync(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !progressed(w, func() bool { return allDone(sends) && req.Done() }) {
		t.Error("the sends do not end")
	}
	if n := w[1].Stats().UnexpectedBytes; n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// TestSenderOfStoppedStreamDies: data that arrived before the sender's end can be read, then the
// receive returns the error.
func TestSenderOfStoppedStreamDies(t *testing.T) {
	w, ep := overTCP(t, [2]string{"STREAM_MAX_UNREAD", "256k"})
	floods(t, make([]byte, flood), ep[0])
	settle(w)
	had := ep[1].stream.unread
	w[0].Close()
	buf := make([]byte, 1<<20)
	got := 0
	for {
		n, req, err := ep[1].StreamRecv(buf, nil)
		got += n
		if err != nil {
			break
		}
		if n > 0 {
			continue
		}
		if !progressed([2]*Worker{w[1], w[1]}, req.Done) {
			t.Fatal("a receive does not end")
		}
		n, err = req.RecvLength()
		got += n
		req.Free()
		if err != nil {
			break
		}
	}
	if got < had || ep[1].err == nil {
		t.Errorf("%d bytes were read, %d had come; %v", got, had, ep[1].err)
	}
	if n := w[1].Stats(); n.UnexpectedBytes != 0 || len(w[1].stream.stopped) != 0 {
		t.Errorf("%d bytes are held", n.UnexpectedBytes)
	}
}

// TestStopCounts: a connection that is stopped for several reasons is read again when the last
// reason has ended. The end of the connection ends all of them.
func TestStopCounts(t *testing.T) {
	v := newTarget(t, "STREAM_MAX_UNREAD", "100k", "MAX_UNEXP_BYTES", "10m")
	other, err := v.NewEndpoint(EndpointParams{Address: v.own.address})
	if err != nil {
		t.Fatal(err)
	}
	c := from("192.0.2.1")
	src := v.accounts.sourceOf(&c.Source)
	fill := func(ep *Endpoint) {
		t.Helper()
		for range 30 {
			if err := ep.w.stream.streaming(ep).keep(src, make([]byte, 4000), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(v.ep)
	if !c.paused || c.pauses != 1 {
		t.Fatal("not stopped")
	}
	fill(other)
	src.AddReplies(2)
	src.SetPaused()
	src.rateLimited = true
	v.ep.stream.discard()
	if !c.paused {
		t.Fatal("another stream stops it")
	}
	other.stream.discard()
	src.SubReplies(2)
	if !c.paused {
		t.Fatal("its haste stops it")
	}
	src.rateLimited = false
	src.ReadOn()
	if c.paused {
		t.Fatal("nothing stops it")
	}
	fill(other)
	if !c.paused {
		t.Fatal("not stopped again")
	}
	c.Gone()
	if len(v.stream.stopped) != 0 || other.stream.stopped != nil {
		t.Error("a connection that is over is waited for")
	}
	other.stream.discard()
	if v.accounts.Holders() != 0 || v.accounts.Held() != 0 {
		t.Errorf("%d sources, %d bytes are left", v.accounts.Holders(), v.accounts.Held())
	}

	// Nothing is stopped while an answer is expected.
	c = from("192.0.2.2")
	src = v.accounts.sourceOf(&c.Source)
	v.ep.flushBegun()
	fill(v.ep)
	if c.paused {
		t.Error("an answer is expected")
	}
	v.ep.flushes = 0
	fill(v.ep)
	if !c.paused {
		t.Error("no answer is expected any more")
	}
	c.Gone()
}

// TestManyFlushes checks that no number of pending flushes makes the counter wrap to zero.
func TestManyFlushes(t *testing.T) {
	ep := &Endpoint{w: new(Worker)}
	for range maxFlushes + 5 {
		ep.flushBegun()
	}
	r := &Request{ep: ep}
	for range maxFlushes + 5 {
		flushing{}.release(r)
	}
	if ep.flushes == 0 {
		t.Error("more than are counted are as none")
	}
}
