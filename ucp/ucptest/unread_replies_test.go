//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// A server answers the requests in a queue, one after the other, over the endpoints that its
// clients have opened. One client sends requests and does not read the answers.

// deafFeatures are the features of the server and its clients.
const deafFeatures = amFeatures | ucp.FeatureTag | ucp.FeatureStream

// deafTransports are the transports of these tests.
var deafTransports = []string{"tcp", "posix", "posix and cma", "tcp with small buffers", "tls", "a small ring"}

// unreadRig is a server and two clients, each of which has received an answer.
type unreadRig struct {
	*rig
	server, deaf, good *side
	deafEp, goodEp     *ucp.Endpoint
	questions          *ucp.AMQueue
	answers            int // number of answers that the good client has received
}

// Ids of active messages.
const (
	askedID    = 1 // requests for the queue
	handledID  = 2 // requests for a handler
	answeredID = 3
)

// newDeafRig opens them. The clients have the server's address, or connect to its listener.
func newDeafRig(t *testing.T, tr transport, mode ucs.ThreadMode, listens bool) *unreadRig {
	t.Helper()
	// The keepalive ends offers to the closed client over shared memory.
	tr = tr.with(setting{"KEEPALIVE_INTERVAL", "100ms"})
	tr.silent = true
	r := &unreadRig{rig: newRig(t, tr)}
	r.log.Allow("refusing a peer's request")
	cp := ucp.ContextParams{Features: deafFeatures}
	r.server = r.openWith(cp, ucp.WorkerParams{ThreadMode: mode})
	r.deaf, r.good = r.openWith(cp, ucp.WorkerParams{}), r.openWith(cp, ucp.WorkerParams{})
	heard := 0
	r.deaf.handle(answeredID, func(*ucp.AMMessage) error { heard++; return nil })
	r.good.handle(answeredID, func(*ucp.AMMessage) error { r.answers++; return nil })
	var err error
	if listens {
		l, err := r.server.NewListener(ucp.ListenerParams{Addr: tr.anyPort(t), OnAccept: func(*ucp.Endpoint) {}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			s  *side
			ep **ucp.Endpoint
		}{{r.deaf, &r.deafEp}, {r.good, &r.goodEp}} {
			if *c.ep, err = c.s.NewEndpoint(ucp.EndpointParams{RemoteAddr: l.Addr()}); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		r.deafEp, r.goodEp = r.deaf.connect(r.server), r.good.connect(r.server)
	}
	if r.questions, err = r.server.NewAMQueue(ucp.AMQueueParams{ID: askedID, Offers: true}); err != nil {
		t.Fatal(err)
	}
	for _, ep := range []*ucp.Endpoint{r.deafEp, r.goodEp} {
		r.must(ep.AMSend(askedID, nil, nil, flagged(ucp.AMSendReply)))
	}
	r.until("the first answers", func() bool {
		if m, ok := r.questions.TryNext(); ok {
			r.must(m.Reply().AMSend(answeredID, nil, nil, nil))
			m.Release()
		}
		return heard == 1 && r.answers == 1
	})
	return r
}

// serve answers requests until stop is called, which returns the errors of the answers.
func (r *unreadRig) serve(answer func(ctx context.Context, to *ucp.Endpoint) error) (stop func() []error) {
	ctx, cancel := context.WithCancel(context.Background())
	var errs []error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range r.questions.All(ctx) {
			if err != nil {
				return
			}
			if err := answer(ctx, m.Reply()); err != nil {
				errs = append(errs, err)
			}
		}
	}()
	r.Cleanup(func() { cancel(); <-done })
	return func() []error {
		cancel()
		<-done
		return errs
	}
}

// ask has the deaf client send requests without reading answers. It stops when the server no longer
// reads.
func (r *unreadRig) ask(id uint16, n int) (asked int) {
	r.Helper()
	p := &ucp.RequestParams{AMFlags: ucp.AMSendReply, Flags: ucp.OpForceImmediate}
	var refused time.Time
	for asked < n {
		switch _, err := r.deafEp.AMSend(id, nil, nil, p); {
		case err == nil:
			asked++
			refused = time.Time{}
		case !errors.Is(err, ucs.ErrNoResource):
			return asked // its connection was dropped
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) > time.Second:
			return asked // the server does not read, or is slow, which only means fewer requests
		default:
			runtime.Gosched()
		}
	}
	return asked
}

// hears has the good client send n requests, and reports whether all were answered.
func (r *unreadRig) hears(n int) bool {
	r.Helper()
	for range n {
		want := r.answers + 1
		if _, err := r.goodEp.AMSend(askedID, nil, nil, flagged(ucp.AMSendReply)); err != nil {
			r.Fatal(err)
		}
		for since := time.Now(); r.answers < want; {
			if r.good.Progress() == 0 {
				runtime.Gosched()
			}
			if time.Since(since) > time.Minute {
				return false
			}
		}
	}
	return true
}

// gone closes the deaf client, after which no answers are pending.
func (r *unreadRig) gone() {
	r.Helper()
	r.deaf.close()
	r.deaf.fd = -1
	r.until("the end of what is owed", func() bool { return r.server.Stats().OwedBytes == 0 })
}

// TestUnreadClient checks that a client that reads no answers does not block the server's loop,
// whatever the lengths and protocols of the answers.
func TestUnreadClient(t *testing.T) {
	ways := map[string]func(ctx context.Context, to *ucp.Endpoint, b []byte) error{
		"active message": func(ctx context.Context, to *ucp.Endpoint, b []byte) error {
			return to.AMSendWait(ctx, answeredID, nil, b, 0)
		},
		"with a header": func(ctx context.Context, to *ucp.Endpoint, b []byte) error {
			return to.AMSendWait(ctx, answeredID, b[:min(len(b), 16)], b, 0)
		},
		"tag": func(ctx context.Context, to *ucp.Endpoint, b []byte) error {
			return errors.Join(to.TagSendWait(ctx, 1, b), to.AMSendWait(ctx, answeredID, nil, nil, 0))
		},
		"stream": func(ctx context.Context, to *ucp.Endpoint, b []byte) error {
			return errors.Join(to.StreamSendWait(ctx, b), to.AMSendWait(ctx, answeredID, nil, nil, 0))
		},
	}
	for k, name := range deafTransports {
		for way, send := range ways {
			for _, n := range []int{8, 8000, 100_000, 1 << 20} { // the last ones by rendezvous
				if way != "active message" && (k > 1 || n > 8000) || k > 2 && n != 8000 && n != 1<<20 {
					continue
				}
				for _, mode := range []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeMulti} {
					t.Run(fmt.Sprintf("%s/%s/%d/%v", name, way, n, mode), func(t *testing.T) {
						r := newDeafRig(t, byName(t, name), mode, false)
						b := make([]byte, n)
						stop := r.serve(func(ctx context.Context, to *ucp.Endpoint) error { return send(ctx, to, b) })
						asked := r.ask(askedID, 1500)
						if !r.hears(20) {
							t.Fatalf("nobody else is answered after %d questions: %+v", asked, r.server.Stats())
						}
						stop()
						r.gone()
					})
				}
			}
		}
	}
}

// TestUnreadClientOfListener checks the same for a client that a listener has accepted.
func TestUnreadClientOfListener(t *testing.T) {
	for _, name := range []string{"tcp with small buffers", "all"} {
		for _, n := range []int{8, 8000, 1 << 20} {
			for _, mode := range []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeMulti} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, n, mode), func(t *testing.T) {
					tr := byName(t, "tcp with small buffers")
					if name == "all" {
						tr.settings = []setting{{"TLS", "posix,cma,tcp"}, {"NET_DEVICES", "lo"}}
					}
					r := newDeafRig(t, tr, mode, true)
					b := make([]byte, n)
					var stopped error
					stop := r.serve(func(ctx context.Context, to *ucp.Endpoint) error {
						return to.AMSendWait(ctx, answeredID, nil, b, 0)
					})
					asked := r.ask(askedID, 1500)
					if !r.hears(20) {
						t.Fatalf("nobody else is answered after %d questions: %+v", asked, r.server.Stats())
					}
					for _, err := range stop() {
						offered := n == 1<<20 && errors.Is(err, ucs.ErrExceedsLimit) && errors.Is(err, ucs.InProgress)
						if !offered && !errors.Is(err, context.Canceled) {
							stopped = err
						}
					}
					if stopped != nil {
						t.Error(stopped)
					}
				})
			}
		}
	}
}
