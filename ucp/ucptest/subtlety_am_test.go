//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Subtle rules of active messages, by their numbers in the list of subtleties of the API.

// onSome runs a test over transports of every kind.
func onSome(t *testing.T, run func(t *testing.T, r *rig)) {
	for _, name := range []string{"self", "tcp", "posix", "sim", "simlate", "simlanes", "posix and cma, shared"} {
		t.Run(name, func(t *testing.T) { run(t, newRig(t, byName(t, name))) })
	}
}

// allFlags are the combinations of flags that select how a message is sent.
var allFlags = []ucp.AMSendFlags{
	0, ucp.AMSendReply, ucp.AMSendEager, ucp.AMSendRndv, ucp.AMSendEager | ucp.AMSendReply, ucp.AMSendRndv | ucp.AMSendReply,
}

// flagged returns parameters with these flags.
func flagged(f ucp.AMSendFlags) *ucp.RequestParams { return &ucp.RequestParams{AMFlags: f} }

func TestSubtlety18EmptyMessages(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		sink := b.sink(1)
		for _, flags := range allFlags {
			for _, p := range []*ucp.RequestParams{flagged(flags), {AMFlags: flags, Buffer: ucp.IOV(nil, nil)}, {AMFlags: flags, Buffer: ucp.Bytes(nil)}} {
				k := len(sink.got)
				req, err := ep.AMSend(1, []byte("header"), nil, p)
				if err != nil {
					t.Fatal(err)
				}
				got := sink.next(k)
				r.must(req, nil)
				if string(got.header) != "header" || len(got.data) != 0 {
					t.Errorf("flags %#x: %q and %d bytes", flags, got.header, len(got.data))
				}
			}
		}
	})
}

func TestSubtlety19EmptyHeaderAndData(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		sink := b.sink(1)
		for k, flags := range allFlags {
			req, err := ep.AMSend(1, nil, nil, flagged(flags))
			if err != nil {
				t.Fatal(err)
			}
			if got := sink.next(k); len(got.header)+len(got.data) != 0 {
				t.Errorf("flags %#x: %q and %d bytes", flags, got.header, len(got.data))
			}
			r.must(req, nil)
		}
	})
}

func TestSubtlety20HandlerResultEndsRendezvous(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		for _, n := range []int{0, 1, 100_000} {
			for _, want := range []error{nil, ucs.ErrRejected, fmt.Errorf("no room: %w", ucs.ErrNoMemory), ucs.ErrCanceled} {
				b.handle(1, func(*ucp.AMMessage) error { return want })
				err := r.finish(ep.AMSend(1, nil, make([]byte, n), flagged(ucp.AMSendRndv)))
				if ucs.StatusOf(err) != ucs.StatusOf(want) {
					t.Errorf("%d bytes: the sender gets %v, the handler returned %v", n, err, want)
				}
				// The result does not matter for a message whose data has arrived.
				r.must(ep.AMSend(1, nil, make([]byte, n), flagged(ucp.AMSendEager)))
			}
			b.handle(1, func(*ucp.AMMessage) error { return ucs.InProgress }) // not a final status
			if err := r.finish(ep.AMSend(1, nil, make([]byte, n), flagged(ucp.AMSendRndv))); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%d bytes: the sender gets %v", n, err)
			}
		}
		r.settle()
	})
}

func TestSubtlety21KeptDataStays(t *testing.T) {
	needtest.Goroutines(t)
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		type keeping struct {
			m      *ucp.AMMessage
			before []byte // the data that the handler saw
		}
		var kept []keeping
		for _, handler := range []ucp.AMHandlerFlags{0, ucp.AMPersistentData, ucp.AMPersistentData | ucp.AMWholeMessage} {
			kept = nil
			b.handle(1, func(m *ucp.AMMessage) error {
				k := keeping{m, m.Data()}
				m.Keep()
				m.Keep() // has no further effect
				kept = append(kept, k)
				return nil
			}, handler)
			lengths := []int{0, 1, 8, 100, 5000, 8000, 9000, 200_000}
			for k, n := range lengths {
				for i, flags := range allFlags {
					req, err := ep.AMSend(1, []byte{byte(k), byte(i)}, ucttest.Pattern(n, uint64(k)), flagged(flags|ucp.AMSendCopyHeader))
					if err != nil {
						t.Fatal(err)
					}
					want := k*len(allFlags) + i + 1
					r.until("a message", func() bool { return len(kept) == want })
					req.Free()
				}
			}
			// Later messages are not kept, and must not overwrite the kept ones.
			b.handle(2, func(*ucp.AMMessage) error { return nil })
			for _, n := range lengths {
				r.must(ep.AMSend(2, make([]byte, 50), make([]byte, n), flagged(ucp.AMSendEager)))
			}
			r.settle()
			for at, k := range kept {
				n := lengths[at/len(allFlags)]
				if h := k.m.Header(); len(h) != 2 || int(h[0]) != at/len(allFlags) || int(h[1]) != at%len(allFlags) {
					t.Errorf("message %d has header %v", at, h)
				}
				if k.m.Len() != n {
					t.Errorf("message %d has %d bytes, want %d", at, k.m.Len(), n)
				}
				if k.m.Offered() {
					buf := make([]byte, n)
					r.must(k.m.Recv(buf, nil))
					ucttest.SameBytes(t, "data of an offer that was kept", buf, ucttest.Pattern(n, uint64(at/len(allFlags))))
					continue
				}
				ucttest.SameBytes(t, "data that was kept", k.m.Data(), ucttest.Pattern(n, uint64(at/len(allFlags))))
				if handler&ucp.AMPersistentData != 0 && n > 0 && &k.m.Data()[0] != &k.before[0] {
					t.Errorf("%d bytes have moved", n)
				}
				k.m.Release()
			}
			if held := b.Stats().UnexpectedBytes; held != 0 {
				t.Errorf("%d bytes are charged for nothing", held)
			}
		}
	})
}

func TestSubtlety22ReceiveInsideHandler(t *testing.T) {
	needtest.Goroutines(t)
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		for _, result := range []error{nil, ucs.ErrRejected} {
			for _, n := range []int{0, 1, 5000, 300_000} {
				for _, flags := range allFlags {
					var req *ucp.Request
					var err error
					buf := make([]byte, n)
					handled := false
					b.handle(1, func(m *ucp.AMMessage) error {
						handled = true
						req, err = m.Recv(buf, nil)
						if string(m.Header()) != "h" {
							t.Error("the header is gone before the handler has returned")
						}
						return result // must not end the sender's request a second time
					})
					src := ucttest.Pattern(n, 3)
					sreq, serr := ep.AMSend(1, []byte("h"), src, flagged(flags|ucp.AMSendCopyHeader))
					r.until("the handler", func() bool { return handled })
					r.must(req, err)
					r.must(sreq, serr)
					ucttest.SameBytes(t, "data", buf, src)
				}
			}
		}
		r.settle()
		if s := a.Stats(); s.Dropped != 0 || s.Malformed != 0 {
			t.Errorf("the sender was told of the end twice: dropped %d, malformed %d", s.Dropped, s.Malformed)
		}
	})
}

func TestSubtlety23ReceiveTakesOwnership(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		var kept *ucp.AMMessage
		b.handle(1, func(m *ucp.AMMessage) error {
			m.Keep()
			kept = m
			return nil
		})
		b.handle(2, func(m *ucp.AMMessage) error {
			kept = m
			m.Recv(make([]byte, 3), nil)
			if req, err := m.Recv(make([]byte, m.Len()), nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("a second receive in the handler: %v, %v", req, err)
			}
			return nil
		})
		for id := uint16(1); id <= 2; id++ {
			for _, n := range []int{10, 5000, 300_000} {
				for _, flags := range allFlags {
					for _, p := range []*ucp.RequestParams{nil, {OnSend: func(*ucp.Request, error, any) {}}} {
						kept = nil
						sreq, serr := ep.AMSend(id, nil, make([]byte, n), flagged(flags))
						if serr != nil {
							t.Fatal(serr)
						}
						r.until("the handler", func() bool { return kept != nil })
						if id == 1 {
							want := ucs.ErrMessageTruncated
							if p != nil {
								want = ucs.ErrInvalidParam // another operation's callback
							}
							if err := r.finish(kept.Recv(make([]byte, 3), p)); !errors.Is(err, want) {
								t.Errorf("%d bytes into 3: %v", n, err)
							}
						}
						if req, err := kept.Recv(make([]byte, n), nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
							t.Errorf("a second receive: %v, %v", req, err)
						}
						r.must(sreq, nil)
					}
				}
			}
		}
	})
}

func TestSubtlety24ReceiveOfNothingEndsSender(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		var err error
		handled := 0
		b.handle(1, func(m *ucp.AMMessage) error {
			handled++
			var req *ucp.Request
			req, err = m.Recv(nil, nil)
			if req != nil {
				t.Error("a receive into nothing goes on")
			}
			return nil
		})
		for k, n := range []int{0, 1, 300_000} {
			sreq := r.started(ep.AMSend(1, nil, make([]byte, n), &ucp.RequestParams{AMFlags: ucp.AMSendRndv, Flags: ucp.OpNoImmediate}))
			r.until("the handler", func() bool { return handled == k+1 })
			if n == 0 && err != nil || n > 0 && !errors.Is(err, ucs.ErrMessageTruncated) {
				t.Errorf("%d bytes into nothing: %v", n, err)
			}
			r.must(sreq, nil)
		}
	})
}

func TestSubtlety25NoHandler(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		r.log.Expect("active message without handler")
		a, b := r.activePair()
		ep := a.connect(b)
		n := uint64(0)
		for _, flags := range allFlags {
			for _, size := range []int{0, 8, 5000, 300_000} {
				n++
				err := r.finish(ep.AMSend(9, []byte("h"), make([]byte, size), flagged(flags|ucp.AMSendCopyHeader)))
				if err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("%d bytes, flags %#x: %v", size, flags, err)
				}
				if offered := flags&(ucp.AMSendEager|ucp.AMSendRndv) == ucp.AMSendRndv; offered && err == nil {
					t.Errorf("%d bytes, flags %#x: offered to nobody, and accepted", size, flags)
				} else if (size <= 8 || flags&ucp.AMSendEager != 0) && !offered && err != nil {
					t.Errorf("%d bytes, flags %#x: %v", size, flags, err)
				}
				r.until("the drop", func() bool { return b.Stats().AMNoHandler == n })
			}
		}
		sink := b.sink(9)
		r.must(ep.AMSend(9, nil, nil, nil))
		sink.next(0)
	})
}

func TestSubtlety26HeaderLimit(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		most := a.Attr().MaxAMHeader // known without an endpoint
		ep := a.connect(b)
		sink := b.sink(1)
		for _, flags := range allFlags {
			for _, n := range []int{0, 100_000} {
				k, sent := len(sink.got), a.Stats().AMSends
				if req, err := ep.AMSend(1, make([]byte, most+1), make([]byte, n), flagged(flags)); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("a header of one byte more: %v, %v", req, err)
				}
				if got := a.Stats().AMSends; got != sent {
					t.Error("it was sent")
				}
				header := ucttest.Pattern(most, 7)
				req, err := ep.AMSend(1, header, make([]byte, n), flagged(flags))
				if err != nil {
					t.Fatal(err)
				}
				got := sink.next(k)
				r.must(req, nil)
				ucttest.SameBytes(t, "the longest header", got.header, header)
			}
		}
		plain := r.open()
		if n := plain.Attr().MaxAMHeader; n != 0 {
			t.Errorf("headers of %d bytes without active messages", n)
		}
	})
}

func TestSubtlety27HeaderOfQueuedSend(t *testing.T) {
	needtest.Goroutines(t)
	onSome(t, func(t *testing.T, r *rig) {
		if r.loopback {
			t.Skip("nothing is queued: an endpoint to oneself is connected at once")
		}
		for _, n := range []int{0, 8, 5000, 300_000} {
			for _, flags := range allFlags {
				for _, copied := range []bool{false, true} {
					a, b := r.activePair()
					ep := a.connect(b)
					sink := b.sink(1)
					header := []byte("before")
					p := flagged(flags)
					if copied {
						p.AMFlags |= ucp.AMSendCopyHeader
					}
					// Messages that contain the peer's endpoint id wait until the id is known.
					req, err := ep.AMSend(1, header, make([]byte, n), p)
					if err != nil {
						t.Fatal(err)
					}
					waits := req != nil && a.Stats().AMSends == 0
					if flags&(ucp.AMSendReply|ucp.AMSendRndv) != 0 && flags&ucp.AMSendEager == 0 && !waits {
						t.Fatal("the send does not wait")
					}
					want := "before"
					if waits || copied {
						copy(header, "after!")
						if waits && !copied {
							want = "after!" // the header is read when it is sent
						}
					}
					if got := sink.next(0); string(got.header) != want {
						t.Errorf("%d bytes, flags %#x: header %q, want %q", n, p.AMFlags, got.header, want)
					}
					r.must(req, nil)
				}
			}
		}
	})
}

func TestSubtlety28ReplyEndpoint(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		for _, n := range []int{0, 100_000} {
			a, b := r.activePair()
			ep := a.connect(b) // b has no endpoint to a
			answers := a.sink(2)
			b.handle(1, func(m *ucp.AMMessage) error {
				to := m.Reply()
				if to == nil {
					return nil
				}
				// Sent in the handler, whether or not the sender's endpoint knows b's id.
				req, err := to.AMSend(2, m.Header(), make([]byte, n), flagged(ucp.AMSendReply|ucp.AMSendCopyHeader))
				if err != nil {
					t.Errorf("answering: %v", err)
				}
				req.Free()
				return nil
			})
			asked := 0
			for _, flags := range allFlags {
				req, err := ep.AMSend(1, []byte{byte(flags)}, make([]byte, n), flagged(flags|ucp.AMSendCopyHeader))
				if err != nil {
					t.Fatal(err)
				}
				if flags&ucp.AMSendReply != 0 {
					if got := answers.next(asked); !bytes.Equal(got.header, []byte{byte(flags)}) || !got.replies {
						t.Errorf("flags %#x: the answer is that to %v", flags, got.header)
					}
					asked++
				}
				r.must(req, nil)
			}
			r.settle()
			if len(answers.got) != asked {
				t.Errorf("%d answers to %d questions", len(answers.got), asked)
			}
		}
	})
}

func TestSubtlety29Alignment(t *testing.T) {
	needtest.Goroutines(t)
	onSome(t, func(t *testing.T, r *rig) {
		for _, align := range []int{1, 2, 64, 4096} {
			a, b := r.activePairWith(ucp.WorkerParams{AMAlignment: align})
			ep := a.connect(b)
			handled := 0
			aligned := func(m *ucp.AMMessage) {
				if n := len(m.Data()); n > 0 && addressOf(m.Data())%uint64(align) != 0 {
					t.Errorf("alignment %d: %d bytes at %#x", align, n, addressOf(m.Data()))
				}
			}
			b.handle(1, func(m *ucp.AMMessage) error {
				handled++
				aligned(m)
				return nil
			}, ucp.AMPersistentData)
			b.handle(2, func(m *ucp.AMMessage) error {
				handled++
				m.Keep()
				aligned(m)
				m.Release()
				return nil
			})
			sent := 0
			for id := uint16(1); id <= 2; id++ {
				for _, n := range []int{1, 7, 8, 100, 2000, 8000, 9000, 200_000} {
					for h := range 3 {
						r.must(ep.AMSend(id, make([]byte, h), make([]byte, n), flagged(ucp.AMSendEager)))
						sent++
					}
				}
			}
			r.until("messages", func() bool { return handled == sent })
		}
		ctx, err := ucp.NewContext(ucp.ContextParams{Features: amFeatures}, r.config())
		if err != nil {
			t.Fatal(err)
		}
		defer ctx.Close()
		for _, align := range []int{-1, 3, 2 * ucp.MaxAMAlignment} {
			if _, err := ctx.NewWorker(ucp.WorkerParams{AMAlignment: align}); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("alignment %d: %v", align, err)
			}
		}
	})
}
