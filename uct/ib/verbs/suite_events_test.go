//go:build linux

package verbs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testArmRace plays ping-pong with both ends waiting for events, so that completions arrive at any
// moment between the first poll, the arming and the second poll. If an event is missed, the test
// hangs.
func testArmRace(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	rounds := r.often(5000, 400, 20000)
	ctx := timeout(t)
	const depth = 4
	for _, s := range []*side{a, b} { // before any send: senders retry only for a limited time
		for i := range depth {
			if _, err := s.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGList: s.at(1000+8*i, 8)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	play := func(s *side, serve bool) error {
		wc := make([]verbs.WC, 3)
		next := func(n uint64) error {
			binary.NativeEndian.PutUint64(s.buf, n)
			_, err := s.qp.PostSend([]verbs.SendWR{{ID: 100, Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: [][]byte{s.buf[:8]}}})
			return err
		}
		if serve {
			if err := next(0); err != nil {
				return err
			}
		}
		for sent, got := 0, 0; sent < rounds || got < rounds; {
			n, err := s.cq.Wait(ctx, wc)
			if err != nil {
				return err
			}
			for _, w := range wc[:n] {
				if err := w.Err(); err != nil {
					return err
				}
				if w.ID == 100 {
					sent++
					continue
				}
				off := 1000 + 8*int(w.ID)
				if v := binary.NativeEndian.Uint64(s.buf[off:]); v != uint64(got) {
					t.Errorf("message %d holds %d", got, v)
				}
				got++
				if _, err := s.qp.PostRecv([]verbs.RecvWR{{ID: w.ID, SGList: s.at(off, 8)}}); err != nil {
					return err
				}
				if !serve || got < rounds {
					if err := next(uint64(got) - uint64(1-btoi(serve))); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	ends := make(chan error, 2)
	go func() { ends <- play(b, false) }()
	go func() { ends <- play(a, true) }()
	check(t, errors.Join(<-ends, <-ends))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// testFlood sends as fast as possible to an end that waits for events in small batches: no message
// may be lost or duplicated.
func testFlood(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = 7 })
	total := r.often(4000, 1000, 50000)
	const depth = 32
	for i := range depth {
		b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 8)})
	}
	sender := make(chan error, 1)
	ctx := timeout(t)
	go func() {
		wc := make([]verbs.WC, 16)
		wr := make([]verbs.SendWR, 8)
		for i := range wr {
			wr[i] = verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(8*i, 8)}
		}
		wr[len(wr)-1].Flags = verbs.SendSignaled
		for out, sent := 0, 0; sent < total; {
			if out < 4 && sent+8*out < total {
				if n, err := a.qp.PostSend(wr); err != nil || n != len(wr) {
					sender <- errors.Join(err, errors.New("not all posted"))
					return
				}
				out++
				continue
			}
			n, err := a.cq.Wait(ctx, wc)
			for _, w := range wc[:n] {
				err = errors.Join(err, w.Err())
			}
			if err != nil {
				sender <- err
				return
			}
			out -= n
			sent += 8 * n
		}
		sender <- nil
	}()
	wc := make([]verbs.WC, 3)
	for got := 0; got < total; {
		n, err := b.cq.Wait(ctx, wc)
		check(t, err)
		for _, w := range wc[:n] {
			if w.Status != verbs.WCSuccess || w.ID != uint64(got%depth) {
				t.Fatalf("message %d: %+v (%v)", got, w, w.Status)
			}
			got++
			b.recv(t, verbs.RecvWR{ID: w.ID, SGList: b.at(0, 8)})
		}
		if r.kernel != nil {
			r.kernel.Progress() // retries sends that wait for receives
		}
	}
	check(t, <-sender)
}

// testResizeLoad makes a completion queue larger and smaller while completions arrive.
func testResizeLoad(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = 7 })
	total := r.often(2000, 600, 20000)
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	sender := make(chan error, 1)
	go func() {
		wc := make([]verbs.WC, 16)
		for i := range total {
			_, err := a.qp.PostSend([]verbs.SendWR{{ID: uint64(i), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)}})
			if err == nil {
				_, err = a.cq.Wait(ctx, wc)
			}
			if err != nil {
				sender <- err
				return
			}
		}
		sender <- nil
	}()
	posted := 0
	wc := make([]verbs.WC, 5)
	for got, size := 0, 0; got < total; {
		for posted < total && posted-got < 30 {
			b.recv(t, verbs.RecvWR{ID: uint64(posted), SGList: b.at(0, 8)})
			posted++
		}
		if r.kernel != nil {
			r.kernel.Progress()
		}
		n, err := b.cq.Wait(ctx, wc)
		check(t, err)
		for _, w := range wc[:n] {
			if w.Status != verbs.WCSuccess || w.ID != uint64(got) {
				t.Fatalf("message %d: %+v (%v)", got, w, w.Status)
			}
			got++
		}
		if got/20 != size {
			size = got / 20
			check(t, b.cq.Resize(40+size*37%500))
			if b.cq.CQE() < 40 {
				t.Fatalf("room for %d", b.cq.CQE())
			}
		}
	}
	check(t, <-sender)
}

// testOverrun writes more completions than a queue has room for: an event must report it, and the
// rest of the device must still work.
func testOverrun(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	small := must(b.ctx.CreateCQ(4, nil, 0))(t)
	over := *b
	over.newQP(t, verbs.RC, func(a *verbs.QPInitAttr) { a.RecvCQ = small })
	c := r.newSide(t, verbs.RC)
	over.up(t, c)
	c.up(t, &over, impatient(1))
	n := small.CQE() + 2 // mlx5's has room for one more than CQE returns
	for i := range n {
		over.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 8)})
	}
	for range n {
		c.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: c.at(0, 8)})
	}
	for {
		e := must(b.ctx.GetAsyncEvent(timeout(t)))(t)
		if e.Type == verbs.EventCQErr {
			if e.CQ != small {
				t.Errorf("%v of another queue", e)
			}
			break
		}
		t.Logf("%v", e)
	}
	a.works(t, b, 1)
	check(t, over.qp.Close())
	check(t, small.Close())
}

// watched is a context that signals when a goroutine first waits for its end.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// testWaiters has many goroutines wait on one channel: each event must go to one of them, and each
// of them must end when it should.
func testWaiters(t *testing.T, r *rig) {
	b := r.newSide(t, verbs.RC)
	ch := must(b.ctx.CreateCompChannel())(t)
	const queues, waiters = 6, 12
	type link struct {
		a  *side
		to side
	}
	var links []link
	index := make(map[*verbs.CQ]int)
	for i := range queues {
		to := *b
		to.cq = must(b.ctx.CreateCQ(64, ch, 0))(t)
		to.newQP(t, verbs.RC)
		a := r.other().newSide(t, verbs.RC)
		to.up(t, a)
		a.up(t, &to)
		links = append(links, link{a, to})
		index[to.cq] = i
	}
	rounds := r.often(100, 20, 1000)
	ctx, cancel := context.WithCancel(timeout(t))
	events := make(chan *verbs.CQ, queues)
	var all sync.WaitGroup
	var mu sync.Mutex
	var ends []error
	for range waiters {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				q, err := ch.GetEvent(ctx)
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					ends = append(ends, err)
					return
				}
				events <- q
			}
		}()
	}
	for round := range rounds {
		for i := range links {
			l := &links[i]
			check(t, l.to.cq.ReqNotify(false))
			l.to.recv(t, verbs.RecvWR{ID: uint64(round), SGList: b.at(0, 8)})
			l.a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: l.a.at(0, 8)})
			l.a.done(t, 0, verbs.WCSend)
		}
		seen := make(map[*verbs.CQ]bool)
		for range queues {
			select {
			case q := <-events:
				if _, ok := index[q]; !ok || seen[q] {
					t.Fatalf("round %d: an event of queue %d, seen %v", round, index[q], seen[q])
				}
				seen[q] = true
				links[index[q]].to.done(t, uint64(round), verbs.WCRecv)
			case <-ctx.Done():
				t.Fatalf("round %d: %d events of %d", round, len(seen), queues)
			}
		}
	}
	// A canceled waiter does not wait for the others.
	stopped := make(chan error)
	for range 4 {
		one, stop := context.WithCancel(context.Background())
		w := &watched{Context: one, asked: make(chan struct{})}
		go func() {
			_, err := ch.GetEvent(w)
			stopped <- err
		}()
		select {
		case <-w.asked: // it waits
			stop()
			wantErr(t, <-stopped, ucs.ErrCanceled, "a canceled one among many")
		case <-ctx.Done():
			stop()
			t.Error("one among many waits without looking at its context")
			go func() { <-stopped }()
		}
	}
	cancel()
	all.Wait()
	for _, err := range ends {
		wantErr(t, err, context.Canceled, "the end of a waiter")
	}
	// Closing the channel ends all waits for it.
	for range waiters {
		go func() {
			_, err := ch.GetEvent(context.Background())
			stopped <- err
		}()
	}
	check(t, ch.Close())
	for range waiters {
		wantErr(t, <-stopped, ucs.ErrCanceled, "waiting on a closed channel")
	}
	_, err := links[0].to.cq.Wait(timeout(t), make([]verbs.WC, 1))
	wantErr(t, err, ucs.ErrInvalidParam, "waiting for a queue of a closed, shared channel")
}

// testCloseWaiting closes a channel while a goroutine waits for it, and a device while goroutines
// wait for its events.
func testCloseWaiting(t *testing.T, r *rig) {
	for range r.often(50, 20, 200) {
		s := r.newSide(t, verbs.RC)
		ends := make(chan error)
		go func() {
			_, err := s.cq.Wait(context.Background(), make([]verbs.WC, 1))
			ends <- err
		}()
		for range 2 {
			go func() {
				_, err := s.ctx.GetAsyncEvent(context.Background())
				ends <- err
			}()
		}
		ctx, cancel := context.WithCancel(context.Background())
		canceled := make(chan error)
		go func() {
			_, err := s.ctx.GetAsyncEvent(ctx)
			canceled <- err
		}()
		cancel()
		wantErr(t, <-canceled, context.Canceled, "a canceled one among three")
		check(t, s.cq.Channel().Close())
		wantErr(t, <-ends, ucs.ErrCanceled, "waiting for completions")
		check(t, s.ctx.Close())
		for range 2 {
			wantErr(t, <-ends, ucs.ErrCanceled, "waiting for events")
		}
	}
}

// testStaleEvent closes a queue with an unread event: that event must name no queue, and the next
// event must name its own.
func testStaleEvent(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	ch := b.cq.Channel()
	check(t, b.cq.ReqNotify(false))
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 8)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
	a.done(t, 0, verbs.WCSend)
	b.poll(t, 1)
	check(t, b.qp.Close())
	check(t, b.cq.Close()) // discards its events, in Linux
	b.cq = must(b.ctx.CreateCQ(16, ch, 0))(t)
	b.newQP(t, verbs.RC)
	check(t, a.qp.Close())
	a.newQP(t, verbs.RC)
	a.up(t, b)
	b.up(t, a)
	check(t, b.cq.ReqNotify(false))
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 8)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)})
	q := must(ch.GetEvent(timeout(t)))(t)
	if q == nil {
		q = must(ch.GetEvent(timeout(t)))(t)
	}
	if q != b.cq {
		t.Error("an event of another queue")
	}
}
