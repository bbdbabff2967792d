//go:build linux

package verbs_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

func testWait(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	wc := make([]verbs.WC, 4)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := b.cq.Wait(canceled, wc)
	wantErr(t, err, ucs.ErrCanceled, "waiting that was canceled before")
	wantErr(t, err, context.Canceled, "waiting that was canceled before")
	later, cancel := context.WithCancel(context.Background())
	got := make(chan error)
	go func() {
		_, err := b.cq.Wait(later, wc)
		got <- err
	}()
	cancel()
	wantErr(t, <-got, ucs.ErrCanceled, "waiting that was canceled")
	for i := range 20 {
		b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 100)})
		go func() {
			n, err := b.cq.Wait(timeout(t), wc)
			if err == nil && (n != 1 || wc[0].ID != uint64(i)) {
				t.Errorf("%d completions, %+v", n, wc[0])
			}
			got <- err
		}()
		if i%3 == 0 {
			runtime.Gosched() // the goroutine may or may not sleep by now
		}
		a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 100)})
		a.done(t, 0, verbs.WCSend)
		check(t, <-got)
	}
	// Now only a solicited message raises an event. The queue may still be armed for any
	// completion: the first message uses that up.
	check(t, b.cq.ReqNotify(true))
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 100)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendSolicited, SGList: a.at(0, 100)})
	a.done(t, 0, verbs.WCSend)
	if q := must(b.cq.Channel().GetEvent(timeout(t)))(t); q != b.cq {
		t.Error("an event of another queue")
	}
	b.done(t, 0, verbs.WCRecv)
	plain := must(b.ctx.CreateCQ(4, nil, 0))(t)
	_, err = plain.Wait(timeout(t), wc)
	wantErr(t, err, ucs.ErrInvalidParam, "waiting without a channel")
}

// testSharedChannel distinguishes the events of two queues on one channel.
func testSharedChannel(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	second := must(b.ctx.CreateCQ(16, b.cq.Channel(), b.ctx.NumCompVectors()-1))(t)
	_, err := second.Wait(timeout(t), make([]verbs.WC, 1))
	wantErr(t, err, ucs.ErrInvalidParam, "waiting on a shared channel")
	check(t, b.cq.ReqNotify(false))
	check(t, second.ReqNotify(false))
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 100)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 100)})
	if q := must(b.cq.Channel().GetEvent(timeout(t)))(t); q != b.cq {
		t.Error("an event of the other queue")
	}
	b.done(t, 0, verbs.WCRecv)
}

// testResize resizes a completion queue that holds completions.
func testResize(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	const n = 10
	for i := range n {
		b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 8)})
		a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
		a.done(t, 0, verbs.WCSend)
	}
	first := b.poll(t, 3)
	check(t, b.cq.Resize(600))
	if b.cq.CQE() < 600 {
		t.Errorf("room for %d", b.cq.CQE())
	}
	rest := b.poll(t, n-3)
	for i, wc := range append(first, rest...) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess {
			t.Errorf("completion %d: %+v", i, wc)
		}
	}
	b.recv(t, verbs.RecvWR{ID: 77, SGList: b.at(0, 8)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
	b.done(t, 77, verbs.WCRecv)
	wantErr(t, b.cq.Resize(0), ucs.ErrInvalidParam, "no room at all")
}

// testModify checks that modifications which the kernel would refuse fail with a reason, and that
// attributes that were set are returned.
func testModify(t *testing.T, r *rig) {
	s := r.newSide(t, verbs.RC)
	if s.state(t) != verbs.QPReset {
		t.Errorf("it begins in %v", s.qp.State())
	}
	_, err := s.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend}})
	wantErr(t, err, ucs.ErrInvalidParam, "a send in RESET")
	_, err = s.qp.PostRecv([]verbs.RecvWR{{}})
	wantErr(t, err, ucs.ErrInvalidParam, "a receive in RESET")
	for what, c := range map[string]struct {
		a    verbs.QPAttr
		mask verbs.QPAttrMask
		says string
	}{
		"a leap":    {verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState | verbs.QPAttrSQPSN, "cannot change from RESET to RTS"},
		"too few":   {verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState | verbs.QPAttrPort, "needs Access|PKeyIndex"},
		"too many":  {verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState | verbs.QPAttrPort | verbs.QPAttrPKeyIndex | verbs.QPAttrAccess | verbs.QPAttrQKey, "does not take QKey"},
		"no port":   {verbs.QPAttr{State: verbs.QPInit}, verbs.QPAttrState | verbs.QPAttrPort | verbs.QPAttrPKeyIndex | verbs.QPAttrAccess, "Port 0"},
		"a mystery": {verbs.QPAttr{State: 9}, verbs.QPAttrState, "to 9"},
	} {
		err := s.qp.Modify(&c.a, c.mask)
		wantErr(t, err, ucs.ErrInvalidParam, what)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
	peer := r.newSide(t, verbs.RC)
	s.up(t, peer)
	a := must(s.qp.Query(verbs.QPAttrState | verbs.QPAttrAH | verbs.QPAttrCap | verbs.QPAttrDestQPN))(t)
	if a.State != verbs.QPRTS || a.DestQPN != peer.qp.QPN() || a.AH.DGID != r.gid || a.PathMTU != r.mtu || a.RQPSN != 0x111 ||
		a.Timeout != 18 || a.RetryCount != 6 || a.Cap.MaxSendWR < 64 {
		t.Errorf("found %+v", a)
	}
	check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	if s.state(t) != verbs.QPErr {
		t.Errorf("in %v, want ERR", s.qp.State())
	}
}

// testReset uses a queue pair again after an error.
func testReset(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	for round := range 3 {
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8)})
		a.buf[0] = byte(round + 1)
		a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
		a.done(t, 2, verbs.WCSend)
		b.done(t, 1, verbs.WCRecv)
		if b.buf[0] != byte(round+1) {
			t.Errorf("round %d: wrong bytes", round)
		}
		for _, s := range []*side{a, b} {
			check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
			check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		}
		a.up(t, b)
		b.up(t, a)
	}
}

func testLocalErrors(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	_, err := a.pd.RegMR(nil, 0)
	wantErr(t, err, ucs.ErrInvalidParam, "registering nothing")
	_, err = a.pd.RegMR(make([]byte, 8), verbs.AccessRemoteWrite)
	wantErr(t, err, ucs.ErrInvalidParam, "remote writes without local ones")
	_, err = a.pd.CreateQP(&verbs.QPInitAttr{Type: 9, SendCQ: a.cq, RecvCQ: a.cq})
	wantErr(t, err, ucs.ErrUnsupported, "an unknown type")
	_, err = a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC})
	wantErr(t, err, ucs.ErrInvalidParam, "no completion queues")
	_, err = a.ctx.CreateCQ(0, nil, 0)
	wantErr(t, err, ucs.ErrInvalidParam, "an empty completion queue")
	_, err = a.ctx.CreateCQ(1<<30, nil, 0)
	wantErr(t, err, ucs.ErrInvalidParam, "a completion queue too large")
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 100)})
	a.send(t, verbs.SendWR{ID: 3, Opcode: verbs.WRSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{{Addr: a.mr.Addr(), Length: 100, LKey: a.mr.LKey() ^ 0x3300}}})
	switch wc := a.poll(t, 1)[0]; {
	case wc.ID != 3:
		t.Errorf("a wrong key: %+v (%v)", wc, wc.Status)
	case wc.Status == verbs.WCLocProtErr, wc.Status == verbs.WCLocQPOpErr: // for errors on its own side rxe of Linux 6.1 has only the latter
		wantErr(t, wc.Err(), ucs.ErrInvalidParam, "its error")
	case wc.Status == verbs.WCWRFlushErr: // rxe of Linux 6.12 may also flush the failed request
		wantErr(t, wc.Err(), ucs.ErrCanceled, "its error")
	default:
		t.Errorf("a wrong key: %+v (%v)", wc, wc.Status)
	}
	if s := a.state(t); s != verbs.QPErr {
		t.Errorf("the queue pair is in %v", s)
	}
}

// testTooLong sends a message that is longer than the receive.
func testTooLong(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 10)})
	a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 11)})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRemInvReqErr && wc.Status != verbs.WCRemOpErr || wc.ID != 2 {
		t.Errorf("the sender: %+v (%v)", wc, wc.Status)
	}
	if wc := b.poll(t, 1)[0]; wc.Status != verbs.WCLocLenErr && wc.Status != verbs.WCLocQPOpErr || wc.ID != 1 {
		t.Errorf("the receiver: %+v (%v)", wc, wc.Status)
	}
	if b.buf[10] != 0 {
		t.Error("a byte too many was written")
	}
}

// testFlush checks that all requests are flushed when the queue pair enters ERR, signaled or not.
func testFlush(t *testing.T, r *rig) {
	_, b := r.pair(t, verbs.RC)
	for i := range 5 {
		b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 10)})
	}
	check(t, b.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	for i, wc := range b.poll(t, 5) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCWRFlushErr {
			t.Errorf("receive %d: %+v (%v)", i, wc, wc.Status)
		}
		wantErr(t, wc.Err(), ucs.ErrCanceled, "its error")
	}
	b.send(t, verbs.SendWR{ID: 9, Opcode: verbs.WRSend, SGList: b.at(0, 10)})
	if wc := b.poll(t, 1)[0]; wc.Status != verbs.WCWRFlushErr || wc.ID != 9 {
		t.Errorf("a send in ERR: %+v (%v)", wc, wc.Status)
	}
}

// testOrder closes objects in the wrong order, which must fail without harm.
func testOrder(t *testing.T, r *rig) {
	s := r.newSide(t, verbs.RC)
	wantErr(t, s.pd.Close(), ucs.ErrBusy, "a domain in use")
	wantErr(t, s.cq.Close(), ucs.ErrBusy, "a completion queue in use")
	check(t, s.qp.Close())
	check(t, s.cq.Close())
	wantErr(t, s.pd.Close(), ucs.ErrBusy, "a domain with memory")
	check(t, s.mr.Close())
	check(t, s.pd.Close())
	if err := s.mr.Close(); err == nil {
		t.Error("a region was closed twice")
	}
	check(t, s.ctx.Close())
	check(t, s.ctx.Close())
	_, err := s.ctx.AllocPD()
	wantErr(t, err, ucs.ErrInvalidParam, "a domain of a closed device")
	// Closing the device closes the remaining objects, whatever their order.
	check(t, r.newSide(t, verbs.UD).ctx.Close())
}

func testAllocations(t *testing.T, r *rig) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	a, b := r.pair(t, verbs.RC)
	var wc [8]verbs.WC
	recv := []verbs.RecvWR{{SGList: b.at(0, 100)}}
	inline := [][]byte{a.buf[:8]}
	send := []verbs.SendWR{
		{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 100)},
		{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: inline, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
	}
	post := func(a, b *side) {
		var header [8]byte // stays on the stack
		p := a.qp.Begin()
		p.Send(1, verbs.SendSignaled)
		p.Inline(header[:])
		p.Write(2, verbs.SendSignaled, b.mr.Addr(), b.mr.RKey())
		p.SGE(a.mr.SGE(0, 8))
		p.Ring()
	}
	for name, f := range map[string]func(){
		"PostRecv": func() { b.qp.PostRecv(recv) },
		"Poll":     func() { a.cq.Poll(wc[:]) },
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	if r.kernel != nil {
		// In state SQD nothing is sent.
		check(t, a.qp.Modify(&verbs.QPAttr{State: verbs.QPSQD}, verbs.QPAttrState))
		for _, what := range []string{"a queue with room", "a full queue"} {
			if n := testing.AllocsPerRun(20, func() { a.qp.PostSend(send) }); n != 0 {
				t.Errorf("PostSend into %s allocates %v times", what, n)
			}
			if n := testing.AllocsPerRun(20, func() { post(a, b) }); n != 0 {
				t.Errorf("a Post into %s allocates %v times", what, n)
			}
			full := make([]verbs.SendWR, 1000)
			for i := range full {
				full[i] = send[0]
			}
			n, err := a.qp.PostSend(full)
			wantErr(t, err, ucs.ErrNoResource, "more than there is room for")
			if n >= len(full) {
				t.Errorf("%d posted", n)
			}
		}
		a, b = r.pair(t, verbs.RC)
		recv[0].SGList, send[0].SGList = b.at(0, 100), a.at(0, 100)
		send[1].RemoteAddr, send[1].RKey = b.mr.Addr(), b.mr.RKey()
	}
	if n := testing.AllocsPerRun(20, func() {
		b.qp.PostRecv(recv)
		b.qp.PostRecv(recv)
		a.qp.PostSend(send)
		post(a, b)
		for got := 0; got < 4; {
			got += a.cq.Poll(wc[:])
		}
		for got := 0; got < 2; {
			got += b.cq.Poll(wc[:])
		}
	}); n != 0 {
		t.Errorf("a round of sends allocates %v times", n)
	}
}
