//go:build linux

package ucp

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
)

// Replies that a peer does not read, over real transports. The deaf peer is a worker that sends
// requests without calling Progress.

// Ids of active messages.
const (
	testHandled = 1
	testQueued  = 2
	testReply   = 3
)

// deafPeers are a server with low limits and two workers that have endpoints to it: one does not
// read its replies, the other does.
type deafPeers struct {
	testing.TB
	server, deaf, good *Worker
	toServer           *Endpoint // the deaf worker's endpoint
	goodToServer       *Endpoint
	queue              *AMQueue
	replies            []uint64 // numbers in the replies that the deaf worker has received
	answered           int      // number of replies that the good worker has received
	started            uint64   // number of replies that the server has started
	errs               []error  // errors that they have ended with
	reply              []byte
}

func newDeafPeers(t *testing.T, tls string, size int) *deafPeers {
	t.Helper()
	p := &deafPeers{TB: t, reply: make([]byte, size)}
	logtest.Watch(t).Allow("refusing a peer's request")
	open := func() *Worker {
		ctx := contextFor(t, FeatureAM|FeatureTag, "TLS", tls, "NET_DEVICES", "lo", "MAX_UNEXP_BYTES", "1g", "CHECK_SOURCE", "n", "TCP_SNDBUF", "8k", "TCP_RCVBUF", "8k")
		t.Cleanup(func() { ctx.Close() })
		w, err := ctx.NewWorker(WorkerParams{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	p.server, p.deaf, p.good = open(), open(), open()
	p.server.accounts.Limits.StopReplies, p.server.accounts.Limits.DropReplies = 1<<20, account.DropMultiple<<20
	handle := func(w *Worker, id uint16, fn func(m *AMMessage)) {
		t.Helper()
		if err := w.SetAMHandler(AMHandlerParams{ID: id, Handler: func(m *AMMessage) error { fn(m); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	handle(p.server, testHandled, p.answer)
	handle(p.deaf, testReply, func(m *AMMessage) { p.replies = append(p.replies, binary.LittleEndian.Uint64(m.Header())) })
	handle(p.good, testReply, func(*AMMessage) { p.answered++ })
	var err error
	if p.queue, err = p.server.NewAMQueue(AMQueueParams{ID: testQueued, Offers: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		w  *Worker
		ep **Endpoint
	}{{p.deaf, &p.toServer}, {p.good, &p.goodToServer}} {
		if *c.ep, err = c.w.NewEndpoint(EndpointParams{Address: p.server.own.address, ErrMode: ErrModePeer}); err != nil {
			t.Fatal(err)
		}
		req, err := (*c.ep).AMSend(testHandled, nil, make([]byte, 8), &RequestParams{AMFlags: AMSendReply})
		if err != nil {
			t.Fatal(err)
		}
		p.until("the first question", req.Done)
	}
	p.until("the first replies", func() bool { return p.answered == 1 && len(p.replies) == 1 })
	p.replies = nil
	return p
}

// answer sends a reply with the number of the request, without waiting.
func (p *deafPeers) answer(m *AMMessage) {
	p.started++
	req, err := m.Reply().AMSend(testReply, m.Data(), p.reply, &RequestParams{
		AMFlags: AMSendCopyHeader,
		OnSend: func(r *Request, err error, _ any) {
			if err != nil {
				p.errs = append(p.errs, err)
			}
			r.Free()
		}})
	if err != nil {
		p.errs = append(p.errs, err)
	}
	_ = req // freed by its callback
}

// turn progresses the server and the good worker, and answers one message of the queue.
func (p *deafPeers) turn() (n int) {
	n = p.server.Progress() + p.good.Progress()
	if m, ok := p.queue.TryNext(); ok {
		p.answer(m)
		m.Release()
		n++
	}
	return n
}

// until repeats turn and progresses the deaf worker too, until cond holds.
func (p *deafPeers) until(what string, cond func() bool) {
	p.Helper()
	for since := time.Now(); !cond(); {
		if p.turn()+p.deaf.Progress() > 0 {
			since = time.Now()
		} else if runtime.Gosched(); time.Since(since) > hangs {
			p.Fatalf("still waiting for %s: %+v", what, p.server.Stats())
		}
	}
}

// ask has the deaf worker send n requests, or as many as the server reads.
func (p *deafPeers) ask(id uint16, n int) (asked int) {
	p.Helper()
	var b [8]byte
	const enough = 10_000 // refusals after which the server reads no more, or not soon
	refused, since := 0, time.Now()
	for asked < n && !(refused >= enough && p.stopsReading()) {
		binary.LittleEndian.PutUint64(b[:], uint64(asked))
		_, err := p.toServer.AMSend(id, nil, b[:], &RequestParams{AMFlags: AMSendReply, Flags: OpForceImmediate})
		switch {
		case err == nil:
			asked++
			refused, since = 0, time.Now()
		case errors.Is(err, ucs.ErrNoResource):
			if refused++; refused%enough != 0 || p.stopsReading() {
				break
			}
			if time.Since(since) > hangs {
				p.Fatalf("the server takes no more than %d questions, and reads on: %+v", asked, p.server.Stats())
			}
			p.deaf.Progress() // sends the rest of what the kernel took in part, for lack of memory
		default:
			return asked
		}
		p.turn()
	}
	return asked
}

// stopsReading reports whether the server has stopped reading from the deaf worker.
func (p *deafPeers) stopsReading() bool {
	s := p.server.Stats()
	return s.Paused > 0 || s.HeldBack > 0
}

// goodIsServed checks that the good worker gets replies.
func (p *deafPeers) goodIsServed() {
	p.Helper()
	for _, id := range []uint16{testHandled, testQueued} {
		want := p.answered + 1
		if _, err := p.goodToServer.AMSend(id, nil, make([]byte, 8), &RequestParams{AMFlags: AMSendReply}); err != nil {
			p.Fatal(err)
		}
		for since := time.Now(); p.answered < want; {
			if p.turn() > 0 {
				since = time.Now()
			} else if runtime.Gosched(); time.Since(since) > hangs {
				p.Fatalf("the good client has no answer: %+v", p.server.Stats())
			}
		}
	}
}

// end returns the server's endpoint to the deaf worker.
func (p *deafPeers) end() *Endpoint {
	return p.server.endpoints.Get(uint64(p.toServer.remoteID))
}

// hears has the deaf worker read everything, and checks that all its requests were answered, in
// order.
func (p *deafPeers) hears(asked int) {
	p.Helper()
	p.until("all replies", func() bool { return len(p.replies) >= asked })
	p.until("the server to see that", func() bool { return p.server.Stats().OwedBytes == 0 })
	for k, n := range p.replies {
		if n != uint64(k) {
			p.Fatalf("reply %d is to question %d", k, n)
		}
	}
	if len(p.errs) > 0 {
		p.Errorf("%d replies have failed: %v", len(p.errs), p.errs[0])
	}
	s := p.server.Stats()
	d := p.end().charge.replies
	if d == nil {
		d = new(replyCharge)
	}
	if s.OwedBytes != 0 || s.UnexpectedBytes != 0 || d.bytes != 0 || d.askBytes != 0 || d.kept != 0 || d.holding {
		p.Errorf("left: %+v, %+v", d, s)
	}
	if p.queue.senderQueues != nil && p.queue.front() != nil {
		p.Error("questions are left")
	}
	p.goodIsServed()
}

// TestRepliesOfHandler: a peer does not read the replies of a handler. The server stops reading
// from the peer; over a transport that cannot stop a single peer it fails the peer's endpoint
// before much memory is held.
func TestRepliesOfHandler(t *testing.T) {
	t.Run("tcp", func(t *testing.T) {
		p := newDeafPeers(t, "tcp", 1000)
		asked := p.ask(testHandled, 1<<20)
		s := p.server.Stats()
		if s.Paused == 0 || s.OwedBytes < 1<<20 || s.OwedBytes > 1<<20+10_000 {
			t.Errorf("after %d questions: %+v", asked, s)
		}
		if list := p.server.Peers(); len(list) != 1 || list[0].Owed != s.OwedBytes || list[0].Paused != 1 {
			t.Errorf("%+v", list)
		}
		p.goodIsServed()
		p.hears(asked)
	})
	t.Run("posix", func(t *testing.T) {
		p := newDeafPeers(t, "posix", 1000)
		end := p.end()
		asked := p.ask(testHandled, 1<<20)
		if !errors.Is(end.Err(), ucs.ErrExceedsLimit) {
			t.Errorf("after %d questions: %v, %+v", asked, end.Err(), p.server.Stats())
		}
		if n := len(p.errs); n == 0 || !errors.Is(p.errs[0], ucs.ErrExceedsLimit) || n > account.DropMultiple<<20/1000 {
			t.Errorf("%d replies have failed: %v", n, p.errs)
		}
		if s := p.server.Stats(); s.OwedBytes != 0 || s.Refused == 0 {
			t.Errorf("%+v", s)
		}
		p.goodIsServed()
	})
}

// TestRepliesOfQueue checks that requests of a peer that does not read its replies are held back in
// their queue, and that all are answered in order once the peer reads.
func TestRepliesOfQueue(t *testing.T) {
	for _, tls := range []string{"tcp", "posix"} {
		t.Run(tls, func(t *testing.T) {
			p := newDeafPeers(t, tls, 1000)
			asked := p.ask(testQueued, 5000)
			if s := p.server.Stats(); s.OwedBytes < 1<<20 || s.OwedBytes > 1<<20+10_000 || s.HeldBack != 1 {
				t.Errorf("after %d questions: %+v", asked, s)
			}
			p.goodIsServed()
			p.hears(asked)
		})
	}
	t.Run("too many over shared memory", func(t *testing.T) {
		p := newDeafPeers(t, "posix", 1000)
		end := p.end()
		asked := p.ask(testQueued, 1<<20)
		if !errors.Is(end.Err(), ucs.ErrExceedsLimit) {
			t.Errorf("after %d questions: %v", asked, end.Err())
		}
		if s := p.server.Stats(); s.OwedBytes != 0 || s.UnexpectedBytes > 1<<20 || s.Unexpected > account.DropMultiple<<20/amMessageSize {
			t.Errorf("%+v", s)
		}
		p.goodIsServed()
	})
}

// TestRepliesClaimed checks that replies are no longer charged to the peer when the application has
// claimed the endpoint.
func TestRepliesClaimed(t *testing.T) {
	p := newDeafPeers(t, "tcp", 1000)
	asked := p.ask(testQueued, 5000)
	end := p.end()
	ep, err := p.server.NewEndpoint(EndpointParams{Address: p.deaf.own.address, ErrMode: ErrModePeer})
	if err != nil {
		t.Fatal(err)
	}
	if ep != end {
		t.Fatal("another endpoint")
	}
	s := p.server.Stats()
	if d := end.charge.replies; s.OwedBytes != 0 || d.holding || d.from != nil {
		t.Errorf("%+v, %+v", d, s)
	}
	p.hears(asked)
}

// TestRepliesOfReader checks that no charge remains for the replies to a peer that reads.
func TestRepliesOfReader(t *testing.T) {
	for _, tls := range []string{"tcp", "posix"} {
		p := newDeafPeers(t, tls, 100)
		for range 100 {
			p.replies = nil
			p.hears(p.ask(testQueued, 1))
		}
	}
}
