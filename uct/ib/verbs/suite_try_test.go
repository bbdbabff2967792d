//go:build linux

package verbs_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testTry takes events without waiting in Go: the descriptor signals them, and a goroutine that
// waits does not interfere.
func testTry(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	ch := b.cq.Channel()
	readable := func(fd int, timeout int) bool {
		t.Helper()
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(p, timeout)
			if err != unix.EINTR {
				check(t, err)
				return n == 1
			}
		}
	}
	const patient = int(eventTimeout / 1e6)
	try := func(want *verbs.CQ) {
		t.Helper()
		if q, ok, err := ch.TryEvent(); q != want || ok != (want != nil) || err != nil {
			t.Errorf("%v, %v: %v", q, ok, err)
		}
	}
	for i := range uint64(3) {
		try(nil)
		check(t, b.cq.ReqNotify(false))
		try(nil)
		b.recv(t, verbs.RecvWR{ID: i, SGList: b.at(0, 8)})
		a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)})
		if !readable(ch.FD(), patient) {
			t.Fatal("the descriptor tells nothing")
		}
		try(b.cq)
		try(nil)
		if readable(ch.FD(), 0) {
			t.Error("the descriptor tells of what has been taken")
		}
		b.done(t, i, verbs.WCRecv)
	}

	// Other events may come before the expected one.
	small := must(b.ctx.CreateCQ(1, nil, 0))(t)
	ends := make(chan error, 1)
	waits := &watched{Context: timeout(t), asked: make(chan struct{})}
	go func() {
		_, err := ch.GetEvent(waits)
		ends <- err
	}()
	<-waits.asked
	over := *b
	over.newQP(t, verbs.RC, func(a *verbs.QPInitAttr) { a.RecvCQ = small })
	c := r.newSide(t, verbs.RC)
	over.up(t, c)
	c.up(t, &over, impatient(1))
	for range small.CQE() + 2 { // mlx5's has room for one more than CQE returns
		over.recv(t, verbs.RecvWR{SGList: b.at(0, 8)})
		c.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: c.at(0, 8)})
	}
	for found := false; !found; {
		if !readable(b.ctx.AsyncFD(), patient) {
			t.Fatal("no event")
		}
		e, ok, err := b.ctx.TryAsyncEvent()
		if !ok || err != nil {
			t.Fatal(e, ok, err)
		}
		found = e.Type == verbs.EventCQErr && e.CQ == small
	}
	check(t, over.qp.Close())
	try(nil)
	check(t, ch.Close())
	wantErr(t, <-ends, ucs.ErrCanceled, "waiting")
	_, _, err := ch.TryEvent()
	wantErr(t, err, ucs.ErrCanceled, "a closed channel")
	check(t, b.ctx.Close())
	_, _, err = b.ctx.TryAsyncEvent()
	wantErr(t, err, ucs.ErrCanceled, "a closed device")
}
