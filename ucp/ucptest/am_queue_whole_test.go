//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// wholeQueue opens a queue that fetches offered data.
func (s *side) wholeQueue(p ucp.AMQueueParams) *ucp.AMQueue {
	s.rig.Helper()
	q, err := s.NewAMQueue(p)
	if err != nil {
		s.rig.Fatal(err)
	}
	return q
}

// next takes the next message out of a queue while all workers progress.
func (r *rig) next(q *ucp.AMQueue) (m *ucp.AMMessage) {
	r.Helper()
	r.until("a message", func() (ok bool) {
		m, ok = q.TryNext()
		return ok
	})
	return m
}

// TestAMQueueWhole checks that messages leave such a queue whole and in the order of their sender,
// whatever their protocol, and that their memory is released.
func TestAMQueueWhole(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		q := b.wholeQueue(ucp.AMQueueParams{ID: 1})
		var reqs []*ucp.Request
		var want [][]byte
		lengths := []int{1 << 20, 0, 300_000, 8, 5000, 70_000}
		for k, n := range lengths {
			for j, flags := range []ucp.AMSendFlags{ucp.AMSendReply, ucp.AMSendRndv | ucp.AMSendReply} {
				data := ucttest.Pattern(n, uint64(10*k+j))
				want = append(want, data)
				req, err := ep.AMSend(1, []byte{byte(len(want))}, data, flagged(flags|ucp.AMSendCopyHeader))
				if err != nil {
					t.Fatal(err)
				}
				reqs = append(reqs, req)
			}
		}
		for k, data := range want {
			m := r.next(q)
			if h := m.Header(); len(h) != 1 || int(h[0]) != k+1 {
				t.Fatalf("message %d: header %v", k, h)
			}
			if m.Offered() || m.Len() != len(data) || !bytes.Equal(m.Data(), data) {
				t.Errorf("message %d: offered %v, %d of %d bytes", k, m.Offered(), len(m.Data()), len(data))
			}
			if k%2 == 0 {
				m.Release()
				continue
			}
			buf := make([]byte, len(data))
			r.must(m.Recv(buf, nil))
			ucttest.SameBytes(t, "received", buf, data)
		}
		for _, req := range reqs {
			if req != nil {
				r.must(req, nil)
			}
		}
		if s := b.Stats(); s.UnexpectedBytes != 0 || s.AMRecvs != uint64(len(want)) {
			t.Errorf("%d bytes are held, %d messages counted", s.UnexpectedBytes, s.AMRecvs)
		}
	})
}

// TestAMQueueWholeApart: the data of one peer cannot be fetched for a while. This delays that
// peer's messages and no others.
func TestAMQueueWholeApart(t *testing.T) {
	r := newRig(t, byName(t, "tcp"))
	slow, b := r.activePair()
	other := r.openWith(ucp.ContextParams{Features: amFeatures}, ucp.WorkerParams{})
	from, too := slow.connect(b), other.connect(b)
	r.log.Expect("active message without handler")
	for _, ep := range []*ucp.Endpoint{from, too} {
		r.must(ep.AMSend(9, nil, nil, flagged(ucp.AMSendReply)))
	}
	r.until("the first messages", func() bool { return b.Stats().AMNoHandler == 2 })
	q := b.wholeQueue(ucp.AMQueueParams{ID: 1})
	data := ucttest.Pattern(1<<20, 1)
	offer, err := from.AMSend(1, []byte{1}, data, flagged(ucp.AMSendRndv|ucp.AMSendReply|ucp.AMSendCopyHeader))
	if err != nil {
		t.Fatal(err)
	}
	r.must(from.AMSend(1, []byte{2}, nil, flagged(ucp.AMSendReply|ucp.AMSendCopyHeader)))
	r.until("the messages of one peer", func() bool { return b.Stats().Unexpected == 2 })
	all := r.sides
	r.sides = []*side{b, other} // the first peer sends nothing more
	if m, ok := q.TryNext(); ok {
		t.Fatalf("message %v has come before its data", m.Header())
	}
	r.must(too.AMSend(1, []byte{3}, nil, flagged(ucp.AMSendReply|ucp.AMSendCopyHeader)))
	if m := r.next(q); m.Header()[0] != 3 {
		t.Errorf("message %d comes first", m.Header()[0])
	} else {
		m.Release()
	}
	r.sides = all
	for _, want := range []byte{1, 2} {
		m := r.next(q)
		if m.Header()[0] != want {
			t.Errorf("message %d comes, want %d", m.Header()[0], want)
		}
		if want == 1 {
			ucttest.SameBytes(t, "data", m.Data(), data)
		}
		m.Release()
	}
	r.must(offer, nil)
}

// TestAMQueueWholeLimits checks that a message that is longer than the queue accepts is refused
// with an error for its sender, and that the messages after it arrive.
func TestAMQueueWholeLimits(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		q := b.wholeQueue(ucp.AMQueueParams{ID: 1, MaxData: 1 << 20})
		long := r.started(ep.AMSend(1, nil, make([]byte, 1<<20+1), flagged(ucp.AMSendRndv|ucp.AMSendReply)))
		fits := r.started(ep.AMSend(1, nil, make([]byte, 1<<20), flagged(ucp.AMSendRndv|ucp.AMSendReply)))
		m := r.next(q)
		if m.Len() != 1<<20 || len(m.Data()) != 1<<20 {
			t.Errorf("a message of %d bytes, %d here", m.Len(), len(m.Data()))
		}
		m.Release()
		r.until("the sends", func() bool { return long.Done() && fits.Done() })
		if !errors.Is(long.Err(), ucs.ErrExceedsLimit) || fits.Err() != nil {
			t.Errorf("the sends: %v, %v", long.Err(), fits.Err())
		}
		long.Free()
		fits.Free()
		for _, p := range []ucp.AMQueueParams{{MaxData: -1}, {Offers: true, MaxData: 5}} {
			if _, err := b.NewAMQueue(p); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%+v: %v", p, err)
			}
		}
	})
}

// TestAMQueueWholeEnds checks that no memory is left if the sender ends, or the queue or the worker
// is closed, while data is fetched.
func TestAMQueueWholeEnds(t *testing.T) {
	for _, name := range []string{"tcp", "posix", "sim", "simlate"} {
		for _, how := range []string{"sender", "queue", "worker"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				r := newRig(t, byName(t, name))
				a, b := r.activePair()
				ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
				q := b.wholeQueue(ucp.AMQueueParams{ID: 1})
				req := r.started(ep.AMSend(1, nil, make([]byte, 4<<20), flagged(ucp.AMSendRndv|ucp.AMSendReply)))
				r.until("the offer", func() bool { return b.Stats().Unexpected == 1 })
				m, ok := q.TryNext()
				if ok { // fetched during the call
					m.Release()
				}
				for range 3 { // fetches a part of it
					b.Progress()
				}
				switch how {
				case "sender":
					if err := ep.Close(); err != nil {
						t.Error(err)
					}
					a.close()
					r.sides = []*side{b}
					if name == "posix" {
						b.close() // the end of the peer is not noticed within the time of a test
						r.sides = nil
					} else {
						r.until("the end", func() bool {
							if m, ok := q.TryNext(); ok { // all of it had arrived
								m.Release()
							}
							return b.Stats().UnexpectedBytes == 0
						})
					}
				case "queue":
					if err := q.Close(); err != nil {
						t.Error(err)
					}
					r.until("the end of the send", func() bool { return req.Done() && b.Stats().UnexpectedBytes == 0 })
				case "worker":
					b.close()
					r.sides = []*side{a}
				}
				req.Free()
			})
		}
	}
}
