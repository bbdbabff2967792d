package ucttest

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testConnBacklog checks that the backlog bounds the waiting requests, and that consuming a
// request makes room for another.
func testConnBacklog(t *testing.T, f *ConnFixture) {
	const backlog = 3
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{Backlog: backlog})
	for range backlog {
		a.Connect(t, l, nil)
	}
	UntilConn(t, "the requests", func() bool { return len(b.Requests) == backlog }, a, b)
	more := a.Connect(t, l, nil)
	UntilConn(t, "an answer", func() bool { return len(more.Opened) > 0 || len(b.Requests) > backlog }, a, b)
	if len(b.Requests) > backlog {
		t.Fatalf("%d requests wait, the backlog is %d", len(b.Requests), backlog)
	}
	wantEnd(t, "one client more than the backlog", more, ucs.ErrRejected, a, b)
	if err := b.Request(t, a).Reject(); err != nil {
		t.Fatal(err)
	}
	b.Accept(t, b.Request(t, a), nil)
	for range 2 {
		a.Connect(t, l, nil)
	}
	UntilConn(t, "room for two", func() bool { return len(b.Requests) == backlog }, a, b)
}

// testConnMany connects many clients at the same time and checks that each gets its own answer.
func testConnMany(t *testing.T, f *ConnFixture) {
	const many = 100
	a, b := f.pair(t)
	var served []*ConnEnd
	l := b.Listen(t, uct.ListenParams{OnRequest: func(_ uct.Listener, r *uct.ConnRequest) {
		served = append(served, b.Accept(t, r, append([]byte("you are "), r.Private...)))
	}})
	var clients []*ConnEnd
	for i := range many {
		e := a.Connect(t, l, binary.LittleEndian.AppendUint32(nil, uint32(i)))
		e.Then = func(what string) {
			if what == "OnConnected" && e.Up() {
				if err := e.EP.Notify(); err != nil {
					t.Errorf("notifying: %v", err)
				}
			}
		}
		clients = append(clients, e)
	}
	up := func(list []*ConnEnd) func() bool {
		return func() bool {
			for _, e := range list {
				if !e.Up() {
					return false
				}
			}
			return len(list) == many
		}
	}
	UntilConn(t, "the answers", up(clients), a, b)
	UntilConn(t, "the notifications", func() bool { return up(served)() }, a, b)
	for i, e := range clients {
		if got := e.Opened[0].Private; string(got) != string(binary.LittleEndian.AppendUint32([]byte("you are "), uint32(i))) {
			t.Errorf("client %d got the answer %x", i, got)
		}
	}
}

// testConnAnotherWorker accepts requests on a worker of another goroutine, while the listener's
// worker continues.
func testConnAnotherWorker(t *testing.T, f *ConnFixture) {
	const many = 20
	a, b, other := f.Open(t), f.Open(t), f.Open(t)
	requests := make(chan *uct.ConnRequest, many)
	l := b.Listen(t, uct.ListenParams{OnRequest: func(_ uct.Listener, r *uct.ConnRequest) { requests <- r }})
	var ends sync.WaitGroup
	ends.Add(1)
	go func() {
		defer ends.Done()
		var served []*ConnEnd
		left := func() bool {
			select {
			case r := <-requests:
				if e, err := other.TryAccept(t, r, []byte("from another")); err != nil {
					t.Errorf("accepting on another worker: %v", err)
				} else {
					served = append(served, e)
				}
			default:
			}
			for _, e := range served {
				if len(e.Ended) == 0 {
					return false
				}
			}
			return len(served) == many
		}
		if !Eventually(left, &other.host) {
			t.Errorf("%d of %d were accepted and have ended on another worker", len(served), many)
		}
	}()
	var clients []*ConnEnd
	for range many {
		clients = append(clients, a.Connect(t, l, nil))
	}
	UntilConn(t, "the answers", func() bool {
		for _, e := range clients {
			if !e.Up() {
				return false
			}
		}
		return true
	}, a, b)
	l.Close()
	for _, e := range clients {
		if string(e.Opened[0].Private) != "from another" {
			t.Errorf("answered %q", e.Opened[0].Private)
		}
		if err := e.EP.Notify(); err != nil {
			t.Error(err)
		}
		if err := e.EP.Disconnect(); err != nil {
			t.Error(err)
		}
	}
	ends.Wait()
}

// testConnAnybody lets several goroutines reject and accept requests while the listener is
// closed, and checks that each request is consumed at most once.
func testConnAnybody(t *testing.T, f *ConnFixture) {
	const many = 24
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	var clients []*ConnEnd
	for range many {
		clients = append(clients, a.Connect(t, l, nil))
	}
	UntilConn(t, "the requests", func() bool { return len(b.Requests) == many }, a, b)
	start := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	consumed := 0
	for range 3 {
		all.Add(1)
		go func() {
			defer all.Done()
			<-start
			for _, r := range b.Requests {
				err := r.Reject()
				if err != nil && !errors.Is(err, ucs.ErrInvalidParam) && !errors.Is(err, ucs.ErrCanceled) {
					t.Errorf("rejecting: %v", err)
				}
				mu.Lock()
				if err == nil {
					consumed++
				}
				mu.Unlock()
			}
		}()
	}
	close(start)
	for _, r := range b.Requests[many/2:] {
		if _, err := b.Manager.Accept(r, uct.AcceptParams{}); err == nil {
			mu.Lock()
			consumed++
			mu.Unlock()
		}
	}
	l.Close()
	all.Wait()
	if consumed > many {
		t.Errorf("%d requests were consumed %d times", many, consumed)
	}
	UntilConn(t, "an end for each client", func() bool {
		for _, e := range clients {
			if len(e.Opened) == 0 {
				return false
			}
		}
		return true
	}, a, b)
}

// testConnWakeup checks that every event of a manager wakes a sleeping worker.
func testConnWakeup(t *testing.T, f *ConnFixture) {
	a, b := f.pair(t)
	l := b.Listen(t, uct.ListenParams{})
	sleep := func(what string, h *ConnHost, cause func(), came func() bool) {
		t.Helper()
		SettleConn(a, b)
		Until(t, "the worker to be armed", func() bool { return h.Worker.Arm() == nil }, &h.host)
		cause()
		for tries := 0; !came(); tries++ {
			if tries > 1000 {
				t.Fatalf("%s: woken 1000 times without an event", what)
			}
			if h.Worker.Progress() > 0 || h.Worker.Arm() != nil || came() {
				continue
			}
			if !readable(t, &h.host, wakeTimeout) {
				t.Fatalf("%s: the worker was not woken", what)
			}
		}
	}
	var client, served *ConnEnd
	sleep("a request", b, func() {
		client = a.Connect(t, l, nil)
		// Address resolution may take longer than a few rounds.
		UntilConn(t, "the client's request", func() bool { return len(client.Packed) > 0 }, a)
		SettleConn(a)
	}, func() bool { return len(b.Requests) > 0 })
	sleep("an answer", a, func() {
		served = b.Accept(t, b.Request(t), nil)
		SettleConn(b)
	}, client.Up)
	sleep("a notification", b, func() {
		client.EP.Notify()
		SettleConn(a)
	}, served.Up)
	sleep("the end", b, func() { client.EP.Close() }, func() bool { return len(served.Ended) > 0 })
	l.Close()
	sleep("the error of a port without listener", a, func() { client = a.Connect(t, l, nil) }, func() bool { return len(client.Opened) > 0 })
}
