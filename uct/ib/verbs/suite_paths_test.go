//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testContention has several queue pairs add to one word at the same time: each addition must
// return a different value.
func testContention(t *testing.T, r *rig) {
	b := r.other().newSide(t, verbs.RC)
	const pairs, each, word = 4, 60, 5000
	var sides []*side
	for range pairs {
		a, to := r.newSide(t, verbs.RC), *b
		to.newQP(t, verbs.RC)
		a.up(t, &to)
		to.up(t, a)
		sides = append(sides, a)
	}
	for _, a := range sides {
		var batch []verbs.SendWR
		for i := range each {
			batch = append(batch, verbs.SendWR{ID: uint64(i), Opcode: verbs.WRAtomicFetchAndAdd, SGList: a.at(8*i, 8),
				RemoteAddr: b.mr.Addr() + word, RKey: b.mr.RKey(), CompareAdd: 1})
		}
		batch[each-1].Flags = verbs.SendSignaled
		a.send(t, batch...)
	}
	found := make(map[uint64]bool)
	for n, a := range sides {
		a.done(t, each-1, verbs.WCFetchAdd)
		last := -1
		for i := range each {
			v := binary.NativeEndian.Uint64(a.buf[8*i:])
			if v >= pairs*each || found[v] || int(v) <= last {
				t.Errorf("addition %d of %d found %d after %d, seen %v", i, n, v, last, found[v])
			}
			found[v], last = true, int(v)
		}
	}
	if v := binary.NativeEndian.Uint64(b.buf[word:]); v != pairs*each {
		t.Errorf("%d additions make %d", pairs*each, v)
	}
}

// testFence sends the data of a read that precedes the send in the same batch: the fence makes the
// send wait for the data.
func testFence(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	const n, word = 20000, 60000
	for i := range r.often(20, 50, 2000) {
		fill(b.buf[:n], byte(i))
		clear(a.buf[:n])
		binary.NativeEndian.PutUint64(b.buf[word:], uint64(i))
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(n, n)}, verbs.RecvWR{ID: 2, SGList: b.at(2*n, 8)})
		a.send(t, verbs.SendWR{Opcode: verbs.WRRDMARead, SGList: a.at(0, n), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
			verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendFence, SGList: a.at(0, n)},
			verbs.SendWR{Opcode: verbs.WRAtomicFetchAndAdd, SGList: a.at(word, 8), RemoteAddr: b.mr.Addr() + word, RKey: b.mr.RKey(), CompareAdd: 1},
			verbs.SendWR{ID: 3, Opcode: verbs.WRSend, Flags: verbs.SendFence | verbs.SendSignaled, SGList: a.at(word, 8)})
		a.done(t, 3, verbs.WCSend)
		b.done(t, 1, verbs.WCRecv)
		b.done(t, 2, verbs.WCRecv)
		if !bytes.Equal(b.buf[n:2*n], b.buf[:n]) {
			t.Fatalf("round %d: the send did not wait for the read", i)
		}
		if v := binary.NativeEndian.Uint64(b.buf[2*n:]); v != uint64(i) {
			t.Fatalf("round %d: the send did not wait for the atomic: %d", i, v)
		}
	}
}

// testGIDs connects, and sends datagrams, from each GID of the port to itself, for IPv4 and IPv6.
func testGIDs(t *testing.T, r *rig) {
	if r.lid != 0 {
		t.Skip("GIDs of InfiniBand are of no family")
	}
	families := make(map[bool]int)
	for _, g := range must(r.open(t).QueryGIDTable())(t) {
		if g.Port != 1 || g.Type != verbs.GIDRoCEv2 {
			continue
		}
		families[g.GID.Addr().Is4()]++
		path := func(a *verbs.QPAttr) { a.AH.DGID, a.AH.SGIDIndex = g.GID, uint8(g.Index) }
		a, b := r.newSide(t, verbs.RC), r.newSide(t, verbs.RC)
		a.up(t, b, path)
		b.up(t, a, path)
		a.works(t, b, byte(g.Index))
		a, b = r.newSide(t, verbs.UD), r.newSide(t, verbs.UD)
		a.up(t, nil)
		b.up(t, nil)
		to := r.path()
		to.DGID, to.SGIDIndex = g.GID, uint8(g.Index)
		ah := must(a.pd.CreateAH(&to))(t)
		fill(a.buf[:200], byte(g.Index+1))
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 240)})
		a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 200), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
		a.done(t, 2, verbs.WCSend)
		if wc := b.done(t, 1, verbs.WCRecv); wc.ByteLen != 240 || !bytes.Equal(b.buf[40:240], a.buf[:200]) {
			t.Errorf("%v: %+v, or wrong bytes", g.GID, wc)
		}
		if from := b.buf[8:24]; !g.GID.Addr().Is4() && !bytes.Equal(from, g.GID[:]) {
			t.Errorf("%v: from % x in the header", g.GID, from)
		}
	}
	if families[false] == 0 || families[true] == 0 {
		t.Errorf("%d of IPv4, %d of IPv6", families[true], families[false])
	}
}

// testDrain drains the send queue and resumes it: an event reports that it is drained, and requests
// posted meanwhile wait.
func testDrain(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	for round := range 3 {
		for i := range 10 {
			b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(100*i, 100)})
			fill(a.buf[100*i:100*(i+1)], byte(round+i))
			a.send(t, verbs.SendWR{ID: uint64(i), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(100*i, 100)})
			if i != 7 {
				continue
			}
			check(t, a.qp.Modify(&verbs.QPAttr{State: verbs.QPSQD, SQDrainEvent: true}, verbs.QPAttrState|verbs.QPAttrSQDrainEvent))
			for {
				e := must(a.ctx.GetAsyncEvent(timeout(t)))(t)
				if e.Type == verbs.EventSQDrained {
					if e.QP != a.qp {
						t.Errorf("%v", e)
					}
					break
				}
			}
		}
		// The event comes after all requests that had begun: eight, or fewer if posting
		// begins nothing yet, as with rxe of Linux 6.12.
		wcs := make([]verbs.WC, 9)
		done := a.cq.Poll(wcs)
		for i, wc := range wcs[:done] {
			if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess || i > 7 {
				t.Errorf("send %d: %+v (%v)", i, wc, wc.Status)
			}
		}
		if n := a.cq.Poll(wcs); n != 0 {
			t.Error("a send in SQD has completed")
		}
		if st := a.state(t); st != verbs.QPSQD {
			t.Errorf("in %v", st)
		}
		check(t, a.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState))
		if _, err := a.qp.PostSend(nil); err != nil { // requests that wait need a doorbell
			t.Error(err)
		}
		for i := done; i < 10; i++ {
			a.done(t, uint64(i), verbs.WCSend)
		}
		for i := range 10 {
			b.done(t, uint64(i), verbs.WCRecv)
		}
		if !bytes.Equal(b.buf[:1000], a.buf[:1000]) {
			t.Errorf("round %d: wrong bytes", round)
		}
	}
}
