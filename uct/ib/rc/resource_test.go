//go:build linux

package rc_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestModeration checks that only some messages ask for a completion, among them the first, and
// that all puts do.
func TestModeration(t *testing.T) {
	_, p, _ := duo(t)
	for k := range 200 {
		check(t, p.ep.AMShort(1, 2, nil, 0, nil))
		if got, want := rc.Unsignaled(p.ep), k%65; got != want {
			t.Fatalf("after %d messages %d ask for no completion, want %d", k+1, got, want)
		}
	}
	check(t, p.ep.(uct.RMA).PutShort([]byte("x"), p.MR.Addr(), p.key()))
	if n := rc.Unsignaled(p.ep); n != 0 {
		t.Errorf("after a put %d", n)
	}
	ucttest.Settle(p.Host)
	if n := rc.Room(p.ep); n != 256 {
		t.Errorf("room for %d requests", n)
	}
}

// TestSendLimit checks that an endpoint posts no more than its queue holds, and that completions
// make room.
func TestSendLimit(t *testing.T) {
	_, p, other := duo(t, "RC_VERBS_TX_MAX_WR", "16")
	for k := range 16 {
		if err := p.ep.AMShort(1, 2, nil, 0, nil); err != nil {
			t.Fatalf("message %d: %v", k, err)
		}
	}
	if err := p.ep.AMShort(1, 2, nil, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("one more: %v", err)
	}
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.Host)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
}

// TestReadLimit checks that no read starts on any endpoint once the bytes being read reach the
// setting. A pending read starts when they have arrived; other operations are not limited.
func TestReadLimit(t *testing.T) {
	_, p, other := duo(t, "RC_VERBS_TX_NUM_GET_BYTES", "1500")
	read := func(p *scriptedPeer, c *uct.Completion) error {
		return p.ep.(uct.RMA).GetZcopy([]uct.IOV{p.Host.IOV(t, make([]byte, 1000))}, p.MR.Addr(), p.key(), c)
	}
	var c ucttest.Completion
	check(t, started(read(p, &c.Completion)))
	check(t, started(read(other, nil)))
	if err := read(p, nil); err != ucs.ErrNoResource {
		t.Errorf("a third read: %v", err)
	}
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	begun := false
	wait := ucttest.NewPending(func() error {
		err := started(read(p, nil))
		begun = err == nil
		return err
	})
	check(t, p.ep.PendingAdd(&wait.Pending))
	ucttest.Settle(p.Host)
	if !begun {
		t.Error("a read that waits does not go on")
	}
	check(t, started(read(p, nil)))
}

// TestCreditLimit checks that all endpoints together post no more than the completion queue holds,
// although most requests ask for no completion, and that pending requests are sent later.
func TestCreditLimit(t *testing.T) {
	r := newRig(t, verbstest.Port{}).Slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TX_CQ_LEN", "64")
	h := f.Open(t)
	var scriptedPeers []*scriptedPeer
	for range 10 {
		scriptedPeers = append(scriptedPeers, newScriptedPeer(t, r, h))
	}
	sent := 0
	var waiting []*ucttest.Pending
	for round := range 50 {
		for _, p := range scriptedPeers {
			err := p.ep.AMShort(1, 2, nil, 0, nil)
			switch {
			case err == nil:
				sent++
			case err == ucs.ErrNoResource && round%5 == 0:
				w := ucttest.NewPending(func() error {
					err := p.ep.AMShort(1, 2, nil, 0, nil)
					if err == nil {
						sent++
					}
					return err
				})
				if err := p.ep.PendingAdd(&w.Pending); err == nil {
					waiting = append(waiting, w)
				}
			case err != ucs.ErrNoResource:
				t.Fatal(err)
			}
		}
		if free, _ := rc.Credits(h.Iface); free < 0 {
			t.Fatalf("%d credits", free)
		}
		if round%3 == 2 {
			h.Worker.Progress()
		}
	}
	ucttest.Settle(h)
	if len(waiting) == 0 {
		t.Error("nobody had to wait")
	}
	for k, w := range waiting {
		if w.Queued() {
			t.Errorf("request %d of %d waits still", k, len(waiting))
		}
	}
	got := 0
	for _, p := range scriptedPeers {
		got += len(p.Received())
	}
	if got != sent || len(h.Failures) != 0 {
		t.Errorf("%d messages of %d, failures %v", got, sent, h.Failures)
	}
}

// TestHungPeers checks that many peers which receive nothing, but are sent to, do not block the
// endpoint of a peer that does receive: its sends, checks and flushes complete.
func TestHungPeers(t *testing.T) {
	for _, places := range []string{"4096", "64"} {
		r := newRig(t, verbstest.Port{})
		f := fixture(t, r, "RC_VERBS_TX_CQ_LEN", places)
		a, b := f.Pair(t)
		got, sent := b.Collect(t, 1), 0
		hung := make(map[uint32]bool)
		for range 20 {
			ep, back := a.ConnectPair(t, b)
			hung[numberOf(t, back)] = true
			r.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{NotReady: hung[m.ToQP]} })
			for ep.AMShort(1, 1, nil, 0, nil) == nil {
				sent++
			}
			w := ucttest.NewPending(func() error { return ep.AMShort(1, 1, nil, 0, nil) })
			check(t, ep.PendingAdd(&w.Pending))
			sent++
			defer func() {
				if w.Queued() || a.Failed(ep) != nil {
					t.Errorf("a request waits: %v, failure %v", w.Queued(), a.Failed(ep))
				}
			}()
			if err := ep.Check(nil); err != nil && err != ucs.InProgress {
				t.Error(err)
			}
		}
		ep, _ := a.ConnectPair(t, b)
		heard := b.Collect(t, 2)
		for range 1000 {
			ucttest.Accept(t, func() error { return ep.AMShort(2, 2, nil, 0, nil) }, a, b)
		}
		heard.Wait(t, 1000, a, b)
		for _, ask := range []func(*uct.Completion) error{
			func(c *uct.Completion) error { return ep.Flush(uct.FlushLocal, c) },
			ep.Check,
		} {
			c := ucttest.NewCompletion(1)
			c.Finish(t, ucttest.Accept(t, func() error { return ask(&c.Completion) }, a, b), a, b)
		}
		if free, _ := rc.Credits(a.Iface); free == 0 {
			t.Error("no place is left")
		}
		r.SetHook(nil)
		got.Wait(t, sent, a, b)
		ucttest.Settle(a, b)
	}
}

// TestHungPeersBuffers checks that such peers do not hold all send buffers when no more can be
// allocated.
func TestHungPeersBuffers(t *testing.T) {
	packer := &ucttest.Packer{Data: []byte("copied")}
	ways := map[string]func(uct.Endpoint) error{
		"data": func(ep uct.Endpoint) error {
			_, err := ep.AMBcopy(1, packer, 0, nil)
			return err
		},
		"headers": func(ep uct.Endpoint) error {
			err := ep.AMZcopy(1, packer, nil, 0, nil)
			if err == ucs.InProgress {
				err = nil
			}
			return err
		},
	}
	for name, send := range ways {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, verbstest.Port{})
			f := fixture(t, r, "RC_VERBS_TX_MAX_BUFS", "64")
			a, b := f.Pair(t)
			hung := make(map[uint32]bool)
			got, sent := b.Collect(t, 1), 0
			for range 20 {
				ep, back := a.ConnectPair(t, b)
				hung[numberOf(t, back)] = true
				r.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{NotReady: hung[m.ToQP]} })
				for send(ep) == nil {
					sent++
				}
				w := ucttest.NewPending(func() error { return send(ep) })
				check(t, ep.PendingAdd(&w.Pending))
				sent++
			}
			good, _ := a.ConnectPair(t, b)
			for range 200 {
				ucttest.Accept(t, func() error { return send(good) }, a, b)
				sent++
			}
			c := ucttest.NewCompletion(1)
			c.Finish(t, ucttest.Accept(t, func() error { return good.Flush(uct.FlushLocal, &c.Completion) }, a, b), a, b)
			r.SetHook(nil)
			got.Wait(t, sent, a, b)
			ucttest.Settle(a, b)
		})
	}
}

// TestShortageEnds checks that an endpoint gets buffers again when memory is available again.
func TestShortageEnds(t *testing.T) {
	r := newRig(t, verbstest.Port{}).Slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_FC_ENABLE", "n")
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	burst := func() (n int) {
		for ; n < 200; n++ {
			if _, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("x")}, 0, nil); err == ucs.ErrNoResource {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		ucttest.Settle(h)
		p.Received()
		return n
	}
	r.Devices()[0].SetMemLock(1)
	if n := burst(); n > 100 {
		t.Fatalf("%d messages without memory", n)
	}
	r.Devices()[0].SetMemLock(1 << 40)
	for n := 0; burst() < 100; n++ {
		if n == 3000 {
			t.Fatal("for ever")
		}
	}
}

// numberOf returns the number of an endpoint's queue pair.
func numberOf(t *testing.T, ep uct.Endpoint) uint32 {
	t.Helper()
	a := rigtest.Must(ep.(uct.Paired).Address())(t)
	return uint32(a[1]) | uint32(a[2])<<8 | uint32(a[3])<<16
}

// TestSharedBuffers checks that idle endpoints do not keep the buffers of their last messages from
// other endpoints.
func TestSharedBuffers(t *testing.T) {
	r := newRig(t, verbstest.Port{}).Slow(1 << 20)
	f := fixture(t, r, "RC_VERBS_TX_MAX_BUFS", "8")
	h := f.Open(t)
	var scriptedPeers []*scriptedPeer
	for range 20 {
		p := newScriptedPeer(t, r, h)
		scriptedPeers = append(scriptedPeers, p)
		for range 3 {
			ucttest.Accept(t, func() error {
				_, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("copied")}, 0, nil)
				return err
			}, h)
		}
		ucttest.Accept(t, func() error { return p.ep.AMZcopy(1, &ucttest.Packer{Data: []byte("h")}, nil, 0, nil) }, h)
	}
	ucttest.Settle(h)
	for k, p := range scriptedPeers {
		if n := len(p.Received()); n != 4 {
			t.Errorf("endpoint %d: %d messages", k, n)
		}
	}
}

// TestWindowClosed checks that puts, gets, flushes and checks need no grant.
func TestWindowClosed(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_FC_WND_SIZE", "4")
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	fill(t, p)
	w := ucttest.NewPending(func() error { return p.ep.AMShort(2, 0, nil, 0, nil) })
	if err := p.ep.AMShort(2, 0, nil, 0, nil); err != ucs.ErrNoResource {
		t.Fatal(err)
	}
	rma := p.ep.(uct.RMA)
	check(t, rma.PutShort([]byte("put"), p.MR.Addr(), p.key()))
	u, c := new(ucttest.Unpacker), ucttest.NewCompletion(1)
	c.Finish(t, rma.GetBcopy(u, 3, p.MR.Addr(), p.key(), &c.Completion), h)
	if string(u.Data) != "put" {
		t.Errorf("read %q", u.Data)
	}
	c = ucttest.NewCompletion(1)
	c.Finish(t, p.ep.Flush(uct.FlushLocal, &c.Completion), h)
	c = ucttest.NewCompletion(1)
	c.Finish(t, p.ep.Check(&c.Completion), h)
	check(t, p.ep.PendingAdd(&w.Pending))
	ucttest.Settle(h)
	if !w.Queued() {
		t.Fatal("sent without a grant")
	}
	if err := p.ep.Flush(uct.FlushLocal, nil); err != ucs.ErrNoResource {
		t.Errorf("a flush behind a request: %v", err)
	}
	p.tell(0xe0)
	ucttest.Settle(h)
	if w.Queued() {
		t.Error("not sent with a grant")
	}
	// A purged request is not sent.
	fill(t, p)
	check(t, p.ep.PendingAdd(&w.Pending))
	p.ep.PendingPurge(func(*uct.Pending) {})
	calls := w.Calls
	p.tell(0xe0)
	ucttest.Settle(h)
	if w.Calls != calls {
		t.Error("dispatched after a purge")
	}
}

// TestCanceledMemory checks that the device no longer accesses the memory of an operation after the
// operation was reported as canceled.
func TestCanceledMemory(t *testing.T) {
	for _, cancel := range []func(p *scriptedPeer){
		func(p *scriptedPeer) { p.ep.Close() },
		func(p *scriptedPeer) {
			if err := p.ep.Flush(uct.FlushCancel, nil); err != nil {
				p.T.Error(err)
			}
		},
	} {
		r, p, other := duo(t)
		mem := bytes.Repeat([]byte{1}, 4096)
		into := make([]byte, 4096)
		out, in := []uct.IOV{p.Host.IOV(t, mem)}, []uct.IOV{p.Host.IOV(t, into)}
		copy(p.Mem, bytes.Repeat([]byte{7}, 8192))
		c := ucttest.NewCompletion(3)
		rma := p.ep.(uct.RMA)
		for _, err := range []error{
			rma.PutZcopy(out, p.MR.Addr()+4096, p.key(), &c.Completion),
			rma.GetZcopy(in, p.MR.Addr(), p.key(), &c.Completion),
			p.ep.AMZcopy(1, nil, []uct.IOV{out[0]}, 0, &c.Completion),
		} {
			if err != ucs.InProgress {
				t.Fatal(err)
			}
		}
		cancel(p)
		if c.Fired != 1 || !errors.Is(c.Err, ucs.ErrCanceled) {
			t.Fatalf("told %d times, %v", c.Fired, c.Err)
		}
		r.Progress()
		ucttest.Settle(p.Host)
		if into[0] != 0 || p.Mem[4096] != 7 || len(p.Received()) != 0 {
			t.Error("the device went on")
		}
		refused(t, p.ep)
		if len(p.Host.Failures) != 0 {
			t.Errorf("failures: %v", p.Host.Failures)
		}
		check(t, other.ep.AMShort(1, 2, nil, 0, nil))
		ucttest.Settle(p.Host)
		if len(other.Received()) != 1 {
			t.Error("another connection has suffered")
		}
	}
}

// TestManyEnds checks that endpoints which end in different ways with much in flight leave nothing
// behind, and that their late completions affect no other endpoint.
func TestManyEnds(t *testing.T) {
	logged := 0
	r := newRig(t, verbstest.Port{}).Slow(5)
	f := fixture(t, r, "RC_VERBS_TX_CQ_LEN", "256")
	a, b := f.Pair(t)
	b.Handle(t, 1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		if logged++; logged%37 == 0 {
			return ucs.ErrInvalidParam
		}
		return nil
	})
	keeper, _ := a.ConnectPair(t, b)
	got := b.Collect(t, 2)
	kept := 0
	for n := range 120 {
		ep, back := a.ConnectPair(t, b)
		c := ucttest.NewCompletion(0)
		for k := range 40 {
			c.Count++
			var err error
			if k%3 == 0 {
				err = ep.AMZcopy(1, &ucttest.Packer{Data: []byte("header")}, nil, 0, &c.Completion)
			} else {
				_, err = ep.AMBcopy(1, &ucttest.Packer{Data: []byte("copied")}, 0, &c.Completion)
			}
			if err != ucs.InProgress {
				c.Count--
			}
			if k%7 == 0 {
				a.Worker.Progress()
			}
		}
		switch n % 4 {
		case 0:
			back.Close()
		case 1:
			ep.Flush(uct.FlushCancel, nil)
		case 2:
			back.Flush(uct.FlushCancel, nil)
		}
		ep.Close()
		if c.Count != 0 {
			t.Fatalf("endpoint %d: %d operations are not over", n, c.Count)
		}
		kept++
		ucttest.Accept(t, func() error { return keeper.AMShort(2, uint64(n), nil, 0, nil) }, a, b)
		if n%10 == 0 {
			ucttest.Settle(a, b)
			back.Close()
		}
	}
	got.Wait(t, kept, a, b)
	c := ucttest.NewCompletion(1)
	c.Finish(t, keeper.Flush(uct.FlushLocal, &c.Completion), a, b)
	ucttest.Settle(a, b)
	for _, h := range []*ucttest.Host{a, b} {
		bufs, freeBufs, hdrs, freeHdrs := rc.Buffers(h.Iface)
		free, total := rc.Credits(h.Iface)
		posted, all := rc.Posted(h.Iface)
		if bufs != freeBufs || hdrs != freeHdrs || free != total || rc.Limbo(h.Iface) != 0 || posted > all {
			t.Errorf("free: %d of %d buffers, %d of %d headers, %d of %d credits; %d in limbo; %d of %d receives",
				freeBufs, bufs, freeHdrs, hdrs, free, total, rc.Limbo(h.Iface), posted, all)
		}
	}
	if a.Failed(keeper) != nil {
		t.Error(a.Failed(keeper))
	}
}

// TestMemory checks that an interface pins little memory at first, and never more than the limit.
func TestMemory(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	a := f.Open(t)
	if now, _ := r.Devices()[0].Pinned(); now > 1<<20 {
		t.Errorf("%d bytes are pinned before anything is sent", now)
	}
	a.Close(t)
	const limit = 4 << 20
	r = rigtest.New(t, verbstest.Config{Limits: verbstest.Limits{MemLock: limit}})
	f = fixture(t, r)
	a, b := f.Pair(t)
	n := 0
	b.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error { n++; return nil })
	var eps []uct.Endpoint
	for range 8 {
		eps = append(eps, a.Connect(t, b))
	}
	msg := ucttest.Pattern(8000, 1)
	sent := 0
	for range 500 {
		for _, ep := range eps {
			ucttest.Accept(t, func() error {
				_, err := ep.AMBcopy(1, &ucttest.Packer{Data: msg}, 0, nil)
				return err
			}, a, b)
			sent++
		}
	}
	ucttest.Until(t, "all messages", func() bool { return n == sent }, a, b)
	if _, most := r.Devices()[0].Pinned(); most > limit || most < limit/2 {
		t.Errorf("%d bytes were pinned at most, the limit is %d", most, limit)
	}
	a.Close(t)
	b.Close(t)
	if now, _ := r.Devices()[0].Pinned(); now != 0 {
		t.Errorf("%d bytes are pinned still", now)
	}
	// With this limit no interface can be opened.
	r.Devices()[0].SetMemLock(100 << 10)
	md := rigtest.Must(r.OpenMD("rxe0", nil))(t)
	defer md.Close()
	w := rigtest.Must(uct.NewWorker())(t)
	defer w.Close()
	if _, err := md.OpenIface(w, uct.IfaceParams{Transport: "rc_verbs", Device: "rxe0:1"}, nil); !errors.Is(err, ucs.ErrNoMemory) {
		t.Errorf("opened with too little memory: %v", err)
	}
}

// TestKeptBuffers checks that handlers which keep as many descriptors as they are given do not stop
// the host from receiving, even without memory for more buffers.
func TestKeptBuffers(t *testing.T) {
	r := rigtest.New(t, verbstest.Config{Limits: verbstest.Limits{MemLock: 4 << 20}})
	f := fixture(t, r)
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	var kept []*uct.AMDesc
	n := 0
	b.Handle(t, 1, func(_ *uct.Source, _ []byte, desc *uct.AMDesc) error {
		n++
		if desc == nil {
			return nil
		}
		kept = append(kept, desc)
		return ucs.InProgress
	})
	const count = 3000
	for range count {
		ucttest.Accept(t, func() error { return ep.AMShort(1, 2, nil, 0, nil) }, a, b)
	}
	ucttest.Until(t, "all messages", func() bool { return n == count }, a, b)
	if len(kept) == 0 || len(kept) == n {
		t.Errorf("%d of %d messages were kept", len(kept), n)
	}
	release := func() {
		for _, d := range kept {
			d.Release()
		}
		kept = nil
	}
	release()
	for range count {
		ucttest.Accept(t, func() error { return ep.AMShort(1, 2, nil, 0, nil) }, a, b)
	}
	ucttest.Until(t, "all messages", func() bool { return n == 2*count }, a, b)
	release()
}

// TestAllocations checks that puts, gets, atomics, flushes, checks and fences allocate nothing.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	rma, atomic, key := p.ep.(uct.RMA), p.ep.(uct.Atomic), p.key()
	data, pk, u := make([]byte, 32), &ucttest.Packer{Data: make([]byte, 64)}, &ucttest.Unpacker{Data: make([]byte, 0, 64)}
	iov := []uct.IOV{h.IOV(t, make([]byte, 256))}
	c := ucttest.NewCompletion(0)
	at := p.MR.Addr() &^ 7
	var old uint64
	for name, start := range map[string]func() error{
		"put short": func() error { return rma.PutShort(data, at, key) },
		"put bcopy": func() error {
			_, err := rma.PutBcopy(pk, 64, at, key)
			return err
		},
		"put zcopy": func() error { return rma.PutZcopy(iov, at, key, &c.Completion) },
		"get bcopy": func() error { return rma.GetBcopy(u, 64, at, key, &c.Completion) },
		"get zcopy": func() error { return rma.GetZcopy(iov, at, key, &c.Completion) },
		"post":      func() error { return atomic.Atomic64Post(uct.AtomicAdd, 1, at, key) },
		"fetch":     func() error { return atomic.Atomic64Fetch(uct.AtomicAdd, 1, &old, at, key, &c.Completion) },
		"cswap":     func() error { return atomic.AtomicCSwap64(1, 2, at, key, &old, &c.Completion) },
		"flush": func() error {
			if err := p.ep.AMShort(1, 2, nil, 0, nil); err != nil {
				return err
			}
			return p.ep.Flush(uct.FlushRemote, &c.Completion)
		},
		"check": func() error { return p.ep.Check(&c.Completion) },
		"fence": p.ep.Fence,
	} {
		once := func() {
			c.Count++
			if err := start(); err == nil {
				c.Count--
			} else if err != ucs.InProgress {
				t.Fatalf("%s: %v", name, err)
			}
			for c.Count > 0 {
				h.Worker.Progress()
			}
			h.Worker.Progress()
		}
		for range 100 {
			once()
			if name == "flush" {
				p.Received()
				p.tell(0xe0)
				h.Worker.Progress()
			}
		}
		if n := testing.AllocsPerRun(100, once); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		p.Received()
	}
}

// TestQueueGrows checks that the receive queue grows in the second progress round after a burst
// that uses most of it, as early as the device could report that few receives are left.
func TestQueueGrows(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	a, b := f.Pair(t)
	ab, _ := a.ConnectPair(t, b)
	got := b.Collect(t, 1)
	for _, before := range []int{64, 128, 256} {
		got.Take()
		posted, all := rc.Posted(b.Iface)
		if posted != before || all != before {
			t.Fatalf("%d buffers posted of %d", posted, all)
		}
		for range before - 4 {
			ucttest.Accept(t, func() error { return ab.AMShort(1, 2, nil, 0, nil) }, a)
		}
		for all == before && got.Len() < before-4 {
			b.Worker.Progress()
			_, all = rc.Posted(b.Iface)
		}
		if all != 2*before || got.Len() > max(32, before/2) {
			t.Errorf("%d buffers after %d messages", all, got.Len())
		}
		got.Wait(t, before-4, a, b)
		ucttest.Settle(a, b)
	}
}

// TestSendsUnderLoad checks that a host that receives all the time still handles its send
// completions in each round, and so can continue to send.
func TestSendsUnderLoad(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_VERBS_RX_MAX_POLL", "4", "RC_VERBS_TX_QUEUE_LEN", "4")
	a, b := f.Pair(t)
	ab, ba := a.ConnectPair(t, b)
	got := a.Collect(t, 1)
	b.Collect(t, 2)
	came, sent, spins, rounds := 0, 0, 0, 500
	for n := range rounds {
		for came < got.Len()+8 { // more than one round receives
			if ba.AMShort(1, 2, nil, 0, nil) == nil {
				came++
				continue
			}
			if b.Worker.Progress(); spins > 100*rounds {
				t.Fatalf("no grant after %d messages", came)
			}
			spins++
		}
		for ab.AMShort(2, 2, nil, 0, nil) == nil {
			sent++
		}
		a.Worker.Progress()
		if got.Len() != 4*(n+1) {
			t.Fatalf("%d messages received in %d rounds", got.Len(), n+1)
		}
	}
	if sent < 2*rounds {
		t.Errorf("%d messages sent in %d rounds", sent, rounds)
	}
}

// TestGrowsForWhoWaits checks that more buffers are allocated after a shortage of memory, even if
// requests are pending all the time.
func TestGrowsForWhoWaits(t *testing.T) {
	r := newRig(t, verbstest.Port{}).Slow(64)
	f := fixture(t, r, "RC_VERBS_FC_ENABLE", "n")
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	sent, waiting := 0, 0
	send := func() error {
		_, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("x")}, 0, nil)
		if err == nil {
			sent++
		}
		return err
	}
	r.Devices()[0].SetMemLock(1)
	for send() == nil {
	}
	short, _, _, _ := rc.Buffers(h.Iface)
	r.Devices()[0].SetMemLock(1 << 40)
	for bufs := short; bufs == short; bufs, _, _, _ = rc.Buffers(h.Iface) {
		for waiting < 200 {
			w := ucttest.NewPending(func() error {
				err := send()
				if err == nil {
					waiting--
				}
				return err
			})
			if err := p.ep.PendingAdd(&w.Pending); err != nil {
				t.Fatalf("nothing waits any more: %v", err)
			}
			waiting++
		}
		h.Worker.Progress()
		p.Received()
		if sent > 100_000 {
			t.Fatalf("%d messages behind the end of the shortage there are still %d buffers", sent, bufs)
		}
	}
	ucttest.Until(t, "those that wait", func() bool {
		p.Received()
		return waiting == 0
	}, h)
	ucttest.Settle(h)
	p.Received()
}
