package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// What callbacks do to objects that are just ending, and what happens to identifiers that are
// reused.

// TestFreeAndReuseInCallback: a callback frees its request and starts an operation that gets the
// same request object and is freed at once. The completion of the first operation must not disturb
// the second.
func TestFreeAndReuseInCallback(t *testing.T) {
	v := newTarget(t)
	buf := make([]byte, 8)
	called := 0
	first, err := v.TagRecv(1, FullMask, make([]byte, 8), &RequestParams{
		OnTagRecv: func(r *Request, _ error, _ TagRecvInfo, _ any) {
			called++
			r.Free()
			for range quarantine { // until the object may be reused
				other, err := v.TagRecv(3, FullMask, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				v.Cancel(other)
				other.Free()
			}
			next, err := v.TagRecv(2, FullMask, buf, nil)
			if err != nil {
				t.Error(err)
			}
			if recycleRequests && next != r {
				t.Error("the object is not used again: the test tests nothing")
			}
			next.Free()
		},
	})
	if err != nil || first == nil {
		t.Fatal(first, err)
	}
	if _, err := v.ep.TagSend(1, []byte("firstone"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.ep.TagSend(2, []byte("theother"), nil); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		v.Progress()
	}
	if called != 1 || string(buf) != "theother" {
		t.Errorf("%d calls, received %q", called, buf)
	}
	v.exchange()
}

// TestCloseWhileFailing checks that the error handler of an endpoint is not called if a callback
// closes the endpoint while it fails.
func TestCloseWhileFailing(t *testing.T) {
	v := newTarget(t)
	handled := 0
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	ep.errMode = ErrModePeer // endpoints over self do not support error handling
	ep.SetErrorHandler(func(*Endpoint, error, any) { handled++ })
	sent := 0
	r, err := ep.TagSendSync(1, nil, &RequestParams{OnSend: func(_ *Request, err error, _ any) {
		sent++
		if _, err := ep.CloseAsync(nil); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ep.fail(ucs.ErrConnectionReset)
	if sent != 1 || handled != 0 {
		t.Errorf("%d completions, %d calls of the handler of a closed endpoint", sent, handled)
	}
	r.Free()
}

// TestMessageIDAgain: a complete message waits for its receive while another message with the same
// id arrives. Neither must affect the other.
func TestMessageIDAgain(t *testing.T) {
	v := newTarget(t)
	first := func(tag Tag) {
		b := make([]byte, proto.EagerFirstSize+1)
		proto.EagerFirst{Tag: proto.Tag(tag), TotalLen: 2, MsgID: 77}.Put(b)
		b[proto.EagerFirstSize] = byte(tag)
		if err := v.tag.onEagerFirst(nil, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	rest := func() {
		b := make([]byte, proto.EagerMiddleSize+1)
		proto.EagerMiddle{MsgID: 77, Offset: 1}.Put(b)
		if err := v.tag.onEagerMiddle(nil, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	first(1)
	rest()
	first(2)
	for tag := Tag(1); tag <= 2; tag++ {
		buf := make([]byte, 2)
		r, err := v.TagRecv(tag, FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tag == 2 {
			rest()
		}
		if !r.Done() || buf[0] != byte(tag) {
			t.Errorf("message %d: %v, received %v", tag, r.Err(), buf)
		}
		r.Free()
	}
	if len(v.eager.assemblies) != 0 {
		t.Errorf("%d assemblies are left", len(v.eager.assemblies))
	}
}

// TestBlockingInCallback checks that a blocking call in a callback, where waiting is not possible,
// is refused before it starts an operation.
func TestBlockingInCallback(t *testing.T) {
	v := newTarget(t)
	var sendErr, recvErr error
	r, err := v.TagRecv(1, FullMask, nil, &RequestParams{OnTagRecv: func(r *Request, _ error, _ TagRecvInfo, _ any) {
		sendErr = v.ep.TagSendWait(t.Context(), 2, nil)
		_, recvErr = v.TagRecvWait(t.Context(), 3, FullMask, nil)
		r.Free()
	}})
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	if _, err := v.ep.TagSend(1, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(sendErr, ucs.ErrInvalidParam) || !errors.Is(recvErr, ucs.ErrInvalidParam) {
		t.Errorf("send: %v, receive: %v", sendErr, recvErr)
	}
	if _, found := v.TagPeek(2, FullMask); found {
		t.Error("the message was sent all the same")
	}
	if _, err := v.ep.TagSend(3, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, found := v.TagPeek(3, FullMask); !found {
		t.Error("a receive that nobody waits for took the message")
	}
}

// TestHookSends: the hook for new requests sends a message. The receive that got the new request
// must find this message.
func TestHookSends(t *testing.T) {
	var self *Endpoint
	send := false
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Modify("TLS", "self"); err != nil {
		t.Fatal(err)
	}
	ctx, err := NewContext(ContextParams{Features: FeatureTag, RequestInit: func(*Request) {
		if !send {
			return
		}
		send = false
		if _, err := self.TagSend(7, []byte("x"), nil); err != nil {
			t.Error(err)
		}
	}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	w, err := ctx.NewWorker(WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	if self, err = w.NewEndpoint(EndpointParams{Address: addr}); err != nil {
		t.Fatal(err)
	}
	send = true
	for send { // until a receive allocates a request
		first := self.w.tag.sn
		req, err := w.TagRecv(7, FullMask, make([]byte, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		if posted := self.w.tag.sn != first; !send && (req != nil || posted) {
			t.Error("the receive was posted although its message was there")
		}
	}
}
