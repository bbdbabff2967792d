//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// What must end although the peer sends nothing any more.

// soon has the keepalive detect lost peers at once.
var soon = setting{"KEEPALIVE_INTERVAL", "10ms"}

// piecemeal has messages arrive in small pieces, few of which the kernel buffers. Otherwise the
// kernel may have the whole message when its sender dies.
var piecemeal = []setting{{"RNDV_THRESH", "inf"}, {"TCP_SNDBUF", "64k"}, {"TCP_RCVBUF", "64k"}}

// mortal are the transports to peers that are other processes.
var mortal = []transport{
	{name: "tcp", settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}},
	{name: "posix", settings: []setting{{"TLS", "posix"}}},
	{name: "posix with names", settings: []setting{{"TLS", "posix"}, {"POSIX_USE_PROC_LINK", "n"}}},
	{name: "sysv", settings: []setting{{"TLS", "sysv"}}},
	{name: "posix and cma", settings: []setting{{"TLS", "posix,cma"}}},
	{name: "sysv and cma", settings: []setting{{"TLS", "sysv,cma"}}},
	{name: "all", settings: []setting{{"TLS", "all"}, {"NET_DEVICES", "lo"}}},
}

// bothModes are the two error modes. Receives do not depend on the mode.
var bothModes = []ucp.ErrMode{ucp.ErrModeNone, ucp.ErrModePeer}

// eachMortal runs a test over these transports in the given error modes. Unless all tests are
// wanted it leaves out transports that resemble others. The race detector sees nothing of what
// processes share.
func eachMortal(t *testing.T, modes []ucp.ErrMode, test func(r *rig, mode ucp.ErrMode), more ...setting) {
	needtest.Goroutines(t)
	for _, tr := range mortal {
		if !needtest.Full && slices.Contains([]string{"posix with names", "sysv", "posix and cma"}, tr.name) {
			continue
		}
		for _, mode := range modes {
			t.Run(fmt.Sprintf("%s/mode %d", tr.name, mode), func(t *testing.T) {
				r := newRig(t, tr.with(append(more, soon)...))
				r.log.Allow("the peer has probably died") // it may die while filling an element
				test(r, mode)
			})
		}
	}
}

// survivor opens a worker and an endpoint that is connected with the doomed peer's endpoint.
func (r *rig) survivor(d *dyingProcess, mode ucp.ErrMode) (*side, *ucp.Endpoint) {
	r.Helper()
	a := r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
	ep, err := a.NewEndpoint(ucp.EndpointParams{Address: d.address, ErrMode: mode})
	if err != nil {
		r.Fatal(err)
	}
	d.do("connect %d %x", mode, []byte(a.address()))
	d.do("recv %d 8", warmTag)
	sent, err := ep.TagSendSync(warmTag, nil, nil)
	if err != nil {
		r.Fatal(err)
	}
	r.ends("the connection", sent.Done)
	if err := sent.Err(); err != nil {
		r.Fatal(err)
	}
	sent.Free()
	return a, ep
}

// TestCloseOutlivesPeer checks that a flush close that waits for the peer ends when the peer dies.
func TestCloseOutlivesPeer(t *testing.T) {
	eachMortal(t, bothModes, func(r *rig, mode ucp.ErrMode) {
		d := r.doomed()
		_, ep := r.survivor(d, mode)
		key, err := ep.UnpackRkey(d.key)
		if err != nil {
			r.Fatal(err)
		}
		r.keys = append(r.keys, key)
		d.do("pause")
		put, err := ep.Put(make([]byte, 100_000), d.memory, key, nil) // too much for one call
		if err != nil {
			r.Fatal(err)
		}
		o := new(outcome)
		closing, err := ep.CloseAsync(&ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate})
		if err != nil {
			r.Fatal(err)
		}
		r.settle()
		d.kill()
		r.ends("the close", closing.Done)
		r.ends("the put", put.Done)
		o.once(r)
	})
}

// TestSenderDies checks that a receive that has got a part of a message ends when the only sender
// has died.
func TestSenderDies(t *testing.T) {
	eachMortal(t, bothModes[:1], func(r *rig, mode ucp.ErrMode) {
		d := r.doomed()
		a, _ := r.survivor(d, mode)
		buf := make([]byte, endless)
		o := new(outcome)
		recv := r.started(a.TagRecv(7, ucp.FullMask, buf, &ucp.RequestParams{OnTagRecv: o.onRecv}))
		d.do("send 7 %d", len(buf))
		r.ends("the first fragment", func() bool { return buf[0] != 0 })
		d.kill()
		r.ends("the receive", recv.Done)
		o.once(r)
		if !errors.Is(recv.Err(), ucs.ErrConnectionReset) {
			r.Errorf("half a message: %v", recv.Err())
		}
		if s := a.Stats(); s.Abandoned != 1 {
			r.Errorf("%d messages were given up", s.Abandoned)
		}
		recv.Free()
	}, piecemeal...)
}

// TestCancelHalfMessage checks that a receive that has got some fragments can be canceled, even if
// it is unknown whether the sender is alive. When the message is complete it can be received again;
// until then it does not keep receives from getting later messages.
func TestCancelHalfMessage(t *testing.T) {
	eachMortal(t, bothModes[:1], func(r *rig, mode ucp.ErrMode) {
		d, other := r.doomed(), r.doomed()
		a, _ := r.survivor(d, mode)
		other.do("connect %d %x", mode, []byte(a.address()))
		other.do("send 1 0") // this worker might send more
		r.ends("the other sender", func() bool { _, ok := a.TagPeek(1, ucp.FullMask); return ok })

		half := func(tag ucp.Tag) (*ucp.Request, *outcome) {
			buf := make([]byte, endless)
			o := new(outcome)
			recv := r.started(a.TagRecv(tag, ucp.FullMask, buf, &ucp.RequestParams{OnTagRecv: o.onRecv}))
			d.do("send %d %d", tag, len(buf))
			r.ends("the first fragment", func() bool { return buf[0] != 0 })
			if recv.Done() {
				r.Fatal("the whole message is there")
			}
			return recv, o
		}
		canceled := func(recv *ucp.Request, o *outcome) {
			a.Cancel(recv)
			o.once(r)
			if !recv.Done() || !errors.Is(recv.Err(), ucs.ErrCanceled) {
				r.Errorf("canceled: %v", recv.Err())
			}
			a.Cancel(recv) // has no effect
			recv.Free()
		}
		canceled(half(7))
		again := r.started(a.TagRecv(7, ucp.FullMask, make([]byte, endless), nil))
		r.ends("the message that was canceled", again.Done)
		if info, err := again.TagRecvInfo(); err != nil || info.Length != endless {
			r.Errorf("the message that was canceled: %v, %+v", err, info)
		}
		again.Free()
		d.do("send 8 100000")
		buf := make([]byte, 100_000)
		next, err := a.TagRecv(8, ucp.FullMask, buf, nil)
		if err != nil {
			r.Fatal(err)
		}
		r.ends("the next message", next.Done)
		if err := next.Err(); err != nil || buf[0] != 0xA5 || buf[99_999] != 0xA5 {
			r.Errorf("the next message: %v, %x … %x", err, buf[0], buf[99_999])
		}
		next.Free()

		recv, o := half(9)
		d.do("pause") // must not die while it fills a ring element, which is detected late
		d.kill()
		if recv.Done() {
			r.Fatal("ended without being asked")
		}
		canceled(recv, o)
		other.do("send 9 10") // must not wait behind the incomplete message
		small := make([]byte, 10)
		next = r.started(a.TagRecv(9, ucp.FullMask, small, nil))
		r.ends("a message of another sender", next.Done)
		if err := next.Err(); err != nil || small[9] != 0xA5 {
			r.Errorf("a message of another sender: %v, %x", err, small)
		}
		next.Free()
		other.kill()
		r.ends("what is kept of the message", func() bool { return a.Stats().Abandoned == 1 })
	}, piecemeal...)
}

// TestContextEndsHalfMessage checks that a call that waits for a message of which a part has
// arrived gives the buffer back when its context ends.
func TestContextEndsHalfMessage(t *testing.T) {
	eachMortal(t, bothModes[:1], func(r *rig, mode ucp.ErrMode) {
		d := r.doomed()
		a, _ := r.survivor(d, mode)
		buf := make([]byte, endless)
		d.do("send 7 %d", len(buf))
		d.do("pause")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := a.TagRecvWait(ctx, 7, ucp.FullMask, buf); !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("half a message: %v", err)
		}
		clear(buf)
		r.settle()
		if buf[len(buf)-1] != 0 || buf[0] != 0 {
			r.Error("the buffer is still written to")
		}
	}, piecemeal...)
}

// TestContextEndsFetch checks that a call that waits for a message which is fetched from the
// sender's memory does not return when its context ends, but when the sender dies.
func TestContextEndsFetch(t *testing.T) {
	eachMortal(t, bothModes[:1], func(r *rig, mode ucp.ErrMode) {
		d := r.doomed()
		a, _ := r.survivor(d, mode)
		d.do("send 7 %d", endless)
		r.ends("the offer", func() bool { _, ok := a.TagPeek(7, ucp.FullMask); return ok })
		d.do("pause")
		ctx, cancel := context.WithCancel(t.Context())
		killed := make(chan struct{})
		context.AfterFunc(ctx, func() { d.kill(); close(killed) })
		cancel()
		buf := make([]byte, endless)
		switch _, err := a.TagRecvWait(ctx, 7, ucp.FullMask, buf); {
		case err == nil: // the message was read from the sender's memory in time
		case !errors.Is(err, ucs.ErrConnectionReset):
			r.Errorf("a message whose sender has died: %v", err)
		}
		<-killed
		clear(buf)
		r.settle()
		if buf[len(buf)-1] != 0 || buf[0] != 0 {
			r.Error("the buffer is still written to")
		}
	}, setting{"RNDV_THRESH", "0"})
}

// TestPeerClosesItsEnd checks that operations that wait for a peer end when the peer has closed its
// endpoint, although the peer is alive.
func TestPeerClosesItsEnd(t *testing.T) {
	eachMortal(t, bothModes, func(r *rig, mode ucp.ErrMode) {
		for _, what := range []string{"get", "put", "fetch", "sync", "offer", "close"} {
			d := r.doomed()
			_, ep := r.survivor(d, mode)
			key, err := ep.UnpackRkey(d.key)
			if err != nil {
				r.Fatal(err)
			}
			d.do("close")
			o := new(outcome)
			p := &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.onSend}
			var req *ucp.Request
			put := func() {
				first, err := ep.Put(make([]byte, 100), d.memory, key, nil)
				if err != nil && !errors.Is(err, ucs.ErrConnectionReset) {
					r.Error(err)
				}
				first.Free()
			}
			switch what {
			case "get":
				req, err = ep.Get(make([]byte, 100_000), d.memory, key, p)
			case "put":
				put()
				req, err = ep.Flush(p)
			case "fetch":
				p.ReplyBuffer = make([]byte, 8)
				req, err = ep.Atomic(ucp.AtomicSwap, make([]byte, 8), d.memory, key, p)
			case "sync":
				req, err = ep.TagSendSync(5, make([]byte, 10), p)
			case "offer":
				req, err = ep.TagSend(5, make([]byte, 8<<20), p)
			case "close":
				put()
				req, err = ep.CloseAsync(p)
			}
			if err == nil {
				r.ends(what, req.Done)
				o.once(r)
				err = req.Err()
				// Operations that access memory directly do not need the peer's endpoint.
				if direct := err == nil && (what == "get" || what == "put" || what == "close"); !direct && !errors.Is(err, ucs.ErrConnectionReset) {
					r.Errorf("%s: %v", what, err)
				}
				req.Free()
			} else if !errors.Is(err, ucs.ErrConnectionReset) {
				r.Errorf("%s: %v", what, err)
			}
			if err := key.Close(); err != nil {
				r.Error(err)
			}
			d.kill()
		}
	})
}
