//go:build linux

package ucptest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestAMQueue checks that messages leave a queue in order, one by one, whatever their protocol.
func TestAMQueue(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		q, err := b.NewAMQueue(ucp.AMQueueParams{ID: 1, Offers: true})
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := q.TryNext(); ok {
			t.Fatalf("an empty queue has message %d", m.ID())
		}
		lengths := []int{0, 8, 5000}
		for k, n := range lengths {
			for _, flags := range []ucp.AMSendFlags{ucp.AMSendReply, ucp.AMSendRndv | ucp.AMSendReply} {
				req, err := ep.AMSend(1, []byte{byte(k)}, ucttest.Pattern(n, uint64(k)), flagged(flags|ucp.AMSendCopyHeader))
				if err != nil {
					t.Fatal(err)
				}
				req.Free()
			}
		}
		r.until("messages", func() bool { return b.Stats().Unexpected == 6 })
		at := 0
		for m, err := range q.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			k := at / 2
			if h := m.Header(); len(h) != 1 || int(h[0]) != k || m.Len() != lengths[k] || m.Offered() != (at%2 == 1) || m.Reply() == nil {
				t.Errorf("message %d: header %v, %d bytes, offered %v", at, h, m.Len(), m.Offered())
			}
			if at%2 == 0 {
				ucttest.SameBytes(t, "data", m.Data(), ucttest.Pattern(lengths[k], uint64(k)))
			}
			if at++; at == 6 {
				break
			}
		}
		if s := b.Stats(); s.UnexpectedBytes != 0 || s.AMRecvs != 6 {
			t.Errorf("%d bytes are held, %d messages counted", s.UnexpectedBytes, s.AMRecvs)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if m, err := q.Next(ctx); m != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("waiting with a context that has ended: %v, %v", m, err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if m, err := q.Next(t.Context()); m != nil || !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("waiting on a queue that is closed: %v, %v", m, err)
		}
		r.log.Expect("active message without handler")
		r.must(ep.AMSend(1, nil, nil, nil))
		r.until("the drop", func() bool { return b.Stats().AMNoHandler == 1 })
	})
}

// TestAMQueueLoop checks that in a loop over a queue each message is kept, received or released by
// the end of its iteration.
func TestAMQueueLoop(t *testing.T) {
	onSome(t, func(t *testing.T, r *rig) {
		a, b := r.activePair()
		ep := a.connect(b)
		q, err := b.NewAMQueue(ucp.AMQueueParams{ID: 1, Offers: true})
		if err != nil {
			t.Fatal(err)
		}
		var reqs []*ucp.Request
		for range 4 {
			reqs = append(reqs, r.started(ep.AMSend(1, nil, make([]byte, 100), &ucp.RequestParams{AMFlags: ucp.AMSendRndv, Flags: ucp.OpNoImmediate})))
		}
		r.until("messages", func() bool { return b.Stats().Unexpected == 4 })
		var kept *ucp.AMMessage
		turn := 0
		for m, err := range q.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			switch turn++; turn {
			case 1: // released by the loop
			case 2:
				m.Keep()
				kept = m
			case 3:
				m.Release()
			case 4:
				r.must(m.Recv(make([]byte, 100), nil))
			}
			if turn == 4 {
				break
			}
		}
		for _, k := range []int{0, 2, 3} {
			r.must(reqs[k], nil)
		}
		if reqs[1].Done() {
			t.Error("the message that was kept is over")
		}
		kept.Release()
		r.must(reqs[1], nil)
	})
}

// TestMultiActive: many goroutines send active messages, others take them out of queues, answer
// them and receive the offered data. Every message is answered once, in the order of its sender.
func TestMultiActive(t *testing.T) {
	for _, name := range []string{"self", "tcp", "posix and cma", "sim"} {
		t.Run(name, func(t *testing.T) { togetherActive(t, byName(t, name), true) })
	}
}

// TestMultiActiveWhole is TestMultiActive with queues that fetch offered data themselves.
func TestMultiActiveWhole(t *testing.T) {
	for _, name := range []string{"self", "tcp", "posix and cma", "sim"} {
		t.Run(name, func(t *testing.T) { togetherActive(t, byName(t, name), false) })
	}
}

func togetherActive(t *testing.T, tr transport, offers bool) {
	clients, each := 16, 200
	if race.Enabled || testing.Short() {
		each = 30
	}
	tr.mode = ucs.ThreadModeMulti
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	check := func(err error) bool {
		if err != nil {
			cancel(err)
		}
		return err == nil
	}
	questions, err := b.NewAMQueue(ucp.AMQueueParams{ID: 1, Offers: offers})
	if err != nil {
		t.Fatal(err)
	}
	var servers, workers group
	for range 4 {
		servers.Go(func() {
			buf := make([]byte, 200_000)
			for m, err := range questions.All(ctx) {
				if err != nil {
					return
				}
				header, to := append([]byte(nil), m.Header()...), m.Reply()
				n := copy(buf, m.Data())
				if !offers && m.Offered() {
					check(fmt.Errorf("the data of a message of %d bytes is at its sender", m.Len()))
					return
				}
				if m.Offered() {
					var err error
					if n, err = m.RecvWait(ctx, buf); !check(err) {
						return
					}
				} else {
					m.Release()
				}
				id := uint16(100 + binary.LittleEndian.Uint32(header))
				if !check(to.AMSendWait(ctx, id, header, buf[:min(n, 1000)], 0)) {
					return
				}
			}
		})
	}
	for k := range clients {
		answers, err := a.NewAMQueue(ucp.AMQueueParams{ID: uint16(100 + k), Offers: true})
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			for n := range each {
				size := []int{0, 8, 100, 9000, 150_000}[n%5]
				header := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(k)), uint32(n))
				flags := ucp.AMSendReply
				if n%3 == 0 {
					flags |= ucp.AMSendRndv
				}
				if !check(ep.AMSendWait(ctx, 1, header, ucttest.Pattern(size, uint64(n)), flags)) {
					return
				}
				m, err := answers.Next(ctx)
				if !check(err) {
					return
				}
				if got := int(binary.LittleEndian.Uint32(m.Header()[4:])); got != n {
					check(fmt.Errorf("the answer to %d instead of that to %d", got, n))
				}
				m.Release()
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Error(err)
	}
	if err := questions.Close(); err != nil {
		t.Error(err)
	}
	servers.Wait()
}

// TestHandOver: a handler, or a loop over a queue, passes the messages that it keeps to other
// goroutines. These may release a message before the handler returns or the iteration ends.
func TestHandOver(t *testing.T) {
	const each = 50
	for _, name := range []string{"self", "tcp", "posix and cma"} {
		t.Run(name, func(t *testing.T) {
			tr := byName(t, name)
			tr.mode = ucs.ThreadModeMulti
			r := newRig(t, tr)
			a, b := r.activePair()
			ep := a.connect(b)
			given := make(chan *ucp.AMMessage, 2*each)
			give := func(m *ucp.AMMessage) error {
				m.Keep()
				given <- m
				return nil
			}
			if err := b.SetAMHandler(ucp.AMHandlerParams{ID: 1, Handler: give}); err != nil {
				t.Fatal(err)
			}
			q, err := b.NewAMQueue(ucp.AMQueueParams{ID: 2, Offers: true})
			if err != nil {
				t.Fatal(err)
			}
			var loops, takers group
			loops.Go(func() {
				for m, err := range q.All(t.Context()) {
					if err != nil {
						return // the queue is closed
					}
					give(m)
				}
			})
			for range 2 {
				takers.Go(func() {
					for range each {
						m := <-given
						if m.Len() != 9000 || len(m.Header()) != 1 || m.Reply() == nil {
							t.Errorf("%d bytes, header %v", m.Len(), m.Header())
						}
						if m.Offered() {
							if _, err := m.RecvWait(t.Context(), make([]byte, 9000)); err != nil {
								t.Error(err)
							}
							continue
						}
						ucttest.SameBytes(t, "data", m.Data(), ucttest.Pattern(9000, 0))
						m.Release()
					}
				})
			}
			for k := range 2 * each {
				flags := ucp.AMSendReply
				if k%4 < 2 {
					flags |= ucp.AMSendRndv
				}
				if err := ep.AMSendWait(t.Context(), uint16(1+k%2), []byte{1}, ucttest.Pattern(9000, 0), flags); err != nil {
					t.Fatal(err)
				}
			}
			takers.Wait()
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			loops.Wait()
		})
	}
}
