//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var lengthCases = []testCase{
	{"truncated receive", everySwitch, testTruncated},
	{"shorter message", everySwitch, testShorter},
	{"zero-length messages keep their place", everySwitch, testZeroLength},
}

// testTruncated checks that a message longer than the buffer fails only the receive. The send
// succeeds, plain or synchronous, and the next message is not affected.
func testTruncated(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{1, 5000, 100_000, 1 << 20} {
		for _, l := range layouts {
			for _, expected := range []bool{true, false} {
				for _, sync := range []bool{true, false} {
					send := ep.TagSend
					if sync {
						send = ep.TagSendSync
					}
					buf := make([]byte, n+8)
					fence := buf[n-1:]
					p := &ucp.RequestParams{Buffer: l.make(buf[: n-1 : n-1])}
					var rreq *ucp.Request
					var rerr error
					if expected {
						rreq, rerr = b.TagRecv(1, ucp.FullMask, nil, p)
					}
					sreq, serr := send(1, ucttest.Pattern(n, 3), nil)
					if !expected {
						r.arrived(b, 1)
						rreq, rerr = b.TagRecv(1, ucp.FullMask, nil, p)
					}
					if err := r.finish(rreq, rerr); !errors.Is(err, ucs.ErrMessageTruncated) {
						t.Fatalf("%d bytes, %s, expected %v, sync %v: receive %v", n, l.name, expected, sync, err)
					}
					if err := r.finish(sreq, serr); err != nil {
						t.Fatalf("%d bytes, %s, expected %v, sync %v: send %v", n, l.name, expected, sync, err)
					}
					ucttest.SameBytes(t, "behind the buffer", fence, make([]byte, 9))
				}
			}
		}
	}
	r.sendAndTake(ep, b, 1, message(4))
	r.settle()
	if held := b.Stats().UnexpectedBytes; held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// testShorter checks that a shorter message is received with its own length, and that the rest of
// the buffer is unchanged. The message may end inside an entry of a list.
func testShorter(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{0, 3, 9000, 70_000} {
		for _, l := range layouts {
			buf := make([]byte, 1<<17)
			var o outcome
			rreq := r.started(b.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{Buffer: l.make(buf), OnTagRecv: o.onRecv}))
			r.must(ep.TagSendSync(1, ucttest.Pattern(n, 1), nil))
			r.must(rreq, nil)
			if o.info.Length != n {
				t.Errorf("%s: length %d, want %d", l.name, o.info.Length, n)
			}
			ucttest.SameBytes(t, l.name, buf[:n], ucttest.Pattern(n, 1))
			ucttest.SameBytes(t, l.name+" behind the message", buf[n:], make([]byte, len(buf)-n))
		}
	}
}

func testZeroLength(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var reqs []*ucp.Request
	for i, n := range []int{100_000, 0, 16, 0, 0, 16} {
		req, err := ep.TagSend(ucp.Tag(i), make([]byte, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		reqs = append(reqs, req)
	}
	for i, n := range []int{100_000, 0, 16, 0, 0, 16} {
		r.arrived(b, ucp.Tag(i))
		if _, info := b.take(0, 0, 100_000); info.Length != n || info.SenderTag != ucp.Tag(i) {
			t.Errorf("message %d: %+v, want %d bytes", i, info, n)
		}
	}
	for _, req := range reqs {
		r.must(req, nil)
	}
}
