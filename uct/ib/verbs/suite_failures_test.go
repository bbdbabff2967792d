//go:build linux

package verbs_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// fails posts a request that must fail, with requests after it and receives on the same queue pair.
// It must complete with one of the statuses, all others must be flushed in order, signaled or not,
// and the queue pair must be in ERR.
func (s *side) fails(t *testing.T, wr verbs.SendWR, statuses ...verbs.WCStatus) verbs.WC {
	t.Helper()
	const behind, receives = 3, 2
	for i := range receives {
		s.recv(t, verbs.RecvWR{ID: uint64(100 + i), SGList: s.at(0, 8)})
	}
	wr.ID = 1
	batch := []verbs.SendWR{wr}
	for i := range behind {
		w := verbs.SendWR{ID: uint64(2 + i), Opcode: verbs.WRSend, SGList: s.at(0, 8)}
		if i == 1 {
			w.Flags = verbs.SendSignaled
		}
		batch = append(batch, w)
	}
	s.send(t, batch...)
	var first verbs.WC
	nextSend, nextRecv := uint64(1), uint64(100)
	for _, wc := range s.poll(t, 1+behind+receives) {
		want := []verbs.WCStatus{verbs.WCWRFlushErr}
		next := &nextSend
		switch {
		case wc.ID >= 100:
			next = &nextRecv
		case wc.ID == 1:
			first, want = wc, statuses
		}
		if wc.ID != *next || wc.QPN != s.qp.QPN() || !contains(want, wc.Status) {
			t.Errorf("%+v (%v), want %d and %v", wc, wc.Status, *next, want)
		}
		*next++
	}
	if st := s.state(t); st != verbs.QPErr {
		t.Errorf("the queue pair is in %v, want ERR", st)
	}
	return first
}

func contains(list []verbs.WCStatus, s verbs.WCStatus) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// works sends data in both directions.
func (s *side) works(t *testing.T, peer *side, seed byte) {
	t.Helper()
	for _, to := range []struct{ from, to *side }{{s, peer}, {peer, s}} {
		const at, n = 5000, 3000
		fill(to.from.buf[:n], seed)
		to.to.recv(t, verbs.RecvWR{ID: 41, SGList: to.to.at(at, n)})
		to.from.send(t, verbs.SendWR{ID: 40, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: to.from.at(0, n)})
		to.from.done(t, 40, verbs.WCSend)
		to.to.done(t, 41, verbs.WCRecv)
		if !bytes.Equal(to.to.buf[at:at+n], to.from.buf[:n]) {
			t.Error("wrong bytes")
		}
	}
}

// nothing checks that a queue pair has no completions and is in RTS.
func (s *side) nothing(t *testing.T, who string) {
	t.Helper()
	wc := make([]verbs.WC, 4)
	if n := s.cq.Poll(wc); n != 0 {
		t.Errorf("%s: %+v (%v)", who, wc[0], wc[0].Status)
	}
	if st := s.state(t); st != verbs.QPRTS {
		t.Errorf("%s: in %v", who, st)
	}
}

// again replaces the queue pairs of both ends and uses them.
func (s *side) again(t *testing.T, peer *side) {
	t.Helper()
	for _, x := range []*side{s, peer} {
		check(t, x.qp.Close())
		x.cq.Poll(make([]verbs.WC, x.cq.CQE()))
		x.newQP(t, x.qp.Type())
	}
	s.up(t, peer)
	peer.up(t, s)
	s.works(t, peer, 3)
}

// testRemoteAccess makes every kind of access that the peer does not allow.
func testRemoteAccess(t *testing.T, r *rig) {
	ops := map[verbs.WROpcode]verbs.Access{
		verbs.WRRDMAWrite:         verbs.AccessRemoteWrite,
		verbs.WRRDMAWriteWithImm:  verbs.AccessRemoteWrite,
		verbs.WRRDMARead:          verbs.AccessRemoteRead,
		verbs.WRAtomicCmpAndSwp:   verbs.AccessRemoteAtomic,
		verbs.WRAtomicFetchAndAdd: verbs.AccessRemoteAtomic,
	}
	for what, f := range map[string]func(t *testing.T, b *side, mr *verbs.MR, wr *verbs.SendWR){
		"a wrong key":       func(_ *testing.T, _ *side, _ *verbs.MR, wr *verbs.SendWR) { wr.RKey ^= 0x5500 },
		"an old key":        func(_ *testing.T, _ *side, _ *verbs.MR, wr *verbs.SendWR) { wr.RKey ^= 1 },
		"the end exceeded":  func(_ *testing.T, _ *side, mr *verbs.MR, wr *verbs.SendWR) { wr.RemoteAddr += 4096 },
		"before the start":  func(_ *testing.T, _ *side, _ *verbs.MR, wr *verbs.SendWR) { wr.RemoteAddr -= 8 },
		"no such address":   func(_ *testing.T, _ *side, _ *verbs.MR, wr *verbs.SendWR) { wr.RemoteAddr = 1<<64 - 8 },
		"a region given up": func(t *testing.T, _ *side, mr *verbs.MR, _ *verbs.SendWR) { check(t, mr.Close()) },
		"a region without":  nil,
		"a queue pair without": func(t *testing.T, b *side, _ *verbs.MR, _ *verbs.SendWR) {
			check(t, b.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState|verbs.QPAttrAccess))
		},
		"another domain": func(t *testing.T, b *side, _ *verbs.MR, wr *verbs.SendWR) {
			mr := must(must(b.ctx.AllocPD())(t).RegMR(make([]byte, 4096), fullAccess))(t)
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
		},
	} {
		t.Run(what, func(t *testing.T) {
			for op, right := range ops {
				a, b := r.pair(t, verbs.RC)
				target := make([]byte, 4096)
				access := fullAccess
				if f == nil {
					access &^= right
				}
				mr := must(b.pd.RegMR(target, access))(t)
				n := len(target)
				if right == verbs.AccessRemoteAtomic {
					n = 8
				}
				fill(a.buf, 1)
				b.recv(t, verbs.RecvWR{ID: 7, SGList: b.at(0, 8)}, verbs.RecvWR{ID: 8, SGList: b.at(0, 8)})
				wr := verbs.SendWR{Opcode: op, SGList: a.at(0, n), RemoteAddr: mr.Addr(), RKey: mr.RKey(), CompareAdd: 0, Swap: 1}
				if op == verbs.WRAtomicFetchAndAdd {
					wr.CompareAdd = 1
				}
				if f != nil {
					f(t, b, mr, &wr)
				}
				// A request that the queue pair may not make counts as an invalid
				// request (check_op_valid, drivers/infiniband/sw/rxe/rxe_resp.c).
				want := verbs.WCRemAccessErr
				if what == "a queue pair without" {
					want = verbs.WCRemInvReqErr
				}
				wc := a.fails(t, wr, want)
				wantErr(t, wc.Err(), ucs.ErrRejected, fmt.Sprint(op, ": its error"))
				if st := b.state(t); st != verbs.QPErr {
					t.Errorf("%v: the peer is in %v", op, st)
				}
				for _, wc := range b.poll(t, 2) {
					if wc.Status == verbs.WCSuccess {
						t.Errorf("%v: what came behind the request was received", op)
					}
				}
				if !bytes.Equal(target, make([]byte, len(target))) {
					t.Errorf("%v: something was written", op)
				}
				a.again(t, b)
				check(t, a.ctx.Close())
				check(t, b.ctx.Close())
			}
		})
	}
}

// testRNR sends to a peer without receives, with every number of retries.
func testRNR(t *testing.T, r *rig) {
	for n := range uint8(7) {
		a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = n })
		wc := a.fails(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 11)}, verbs.WCRNRRetryExcErr)
		wantErr(t, wc.Err(), ucs.ErrEndpointTimeout, "its error")
		if st := b.state(t); st != verbs.QPRTS {
			t.Errorf("%d retries: the receiver is in %v", n, st)
		}
		a.again(t, b)
		// A write with immediate data needs a receive too.
		a, b = r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = n })
		a.fails(t, verbs.SendWR{Opcode: verbs.WRRDMAWriteWithImm, SGList: a.at(0, 11), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}, verbs.WCRNRRetryExcErr)
	}
	// The count 7 means to wait forever, until a receive is posted.
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = 7 })
	a.send(t, verbs.SendWR{ID: 3, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 11)})
	b.recv(t, verbs.RecvWR{ID: 4, SGList: b.at(0, 11)})
	a.done(t, 3, verbs.WCSend)
	b.done(t, 4, verbs.WCRecv)
}

// impatient returns an option for peers that do not answer: n retries, after milliseconds.
func impatient(n uint8) func(*verbs.QPAttr) {
	return func(a *verbs.QPAttr) { a.RetryCount, a.Timeout = n, 8 }
}

// testRetry sends to a peer that does not answer, with every number of retries except 7, which
// means forever.
func testRetry(t *testing.T, r *rig) {
	for n := range uint8(7) {
		for _, op := range []verbs.WROpcode{verbs.WRSend, verbs.WRRDMAWrite, verbs.WRRDMARead, verbs.WRAtomicFetchAndAdd} {
			a, nobody := r.newSide(t, verbs.RC), r.other().newSide(t, verbs.RC) // not connected
			a.up(t, nobody, impatient(n))
			wc := a.fails(t, verbs.SendWR{Opcode: op, SGList: a.at(0, 8), RemoteAddr: nobody.mr.Addr(), RKey: nobody.mr.RKey()}, verbs.WCRetryExcErr)
			wantErr(t, wc.Err(), ucs.ErrEndpointTimeout, fmt.Sprint(n, op, "its error"))
			if n == 0 {
				a.again(t, nobody)
			}
			check(t, a.ctx.Close())
			check(t, nobody.ctx.Close())
		}
	}
}

// testPeerGone removes the peer's queue pair from a working connection.
func testPeerGone(t *testing.T, r *rig) {
	for what, leave := range map[string]func(*testing.T, *side){
		"closed": func(t *testing.T, b *side) { check(t, b.qp.Close()) },
		"device": func(t *testing.T, b *side) { check(t, b.ctx.Close()) },
		"ERR": func(t *testing.T, b *side) {
			check(t, b.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
		},
		"RESET": func(t *testing.T, b *side) {
			check(t, b.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		},
		"a new one": func(t *testing.T, b *side) {
			check(t, b.qp.Close())
			b.newQP(t, verbs.RC)
			b.up(t, b)
		},
	} {
		t.Run(what, func(t *testing.T) {
			a, b := r.pair(t, verbs.RC, impatient(2))
			a.works(t, b, 1)
			leave(t, b)
			a.fails(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)}, verbs.WCRetryExcErr)
			if what != "device" {
				if what == "closed" {
					b.newQP(t, verbs.RC)
				}
				a.again(t, b)
			}
		})
	}
}

// testUDLost sends datagrams that no queue pair accepts. They must be lost without any other
// effect.
func testUDLost(t *testing.T, r *rig) {
	a, b := r.newSide(t, verbs.UD), r.other().newSide(t, verbs.UD)
	a.up(t, nil)
	b.up(t, nil)
	c := *b // on b's device, not ready to receive
	c.newQP(t, verbs.UD)
	c.toInit(t)
	path := r.to(b.r)
	ah := must(a.pd.CreateAH(&path))(t)
	good := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 100), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey}
	const size = 100 + verbs.GRHLength
	c.recv(t, verbs.RecvWR{ID: 50, SGList: b.at(0, size)})
	for i, bad := range []func(*verbs.SendWR){
		func(wr *verbs.SendWR) { wr.RemoteQKey++ },
		func(wr *verbs.SendWR) { wr.RemoteQPN = 0xfffff0 },
		func(wr *verbs.SendWR) { wr.RemoteQPN = c.qp.QPN() },
		func(wr *verbs.SendWR) { wr.RemoteQKey = 0 },
	} {
		wr := good
		bad(&wr)
		wr.ID = uint64(i)
		a.send(t, wr)
		a.done(t, wr.ID, verbs.WCSend)
		// A later datagram on the same path has arrived, so the bad one would have, too.
		b.recv(t, verbs.RecvWR{ID: 60, SGList: b.at(1000, size)})
		fill(a.buf[:100], byte(i))
		a.send(t, good)
		a.done(t, 0, verbs.WCSend)
		b.done(t, 60, verbs.WCRecv)
		if !bytes.Equal(b.buf[1000+verbs.GRHLength:1000+size], a.buf[:100]) {
			t.Errorf("datagram %d: wrong bytes", i)
		}
	}
	if b.state(t) != verbs.QPRTS || a.state(t) != verbs.QPRTS {
		t.Errorf("in %v and %v", a.qp.State(), b.qp.State())
	}
	if !bytes.Equal(b.buf[:size], make([]byte, size)) {
		t.Error("a queue pair in INIT received")
	}
}
