//go:build linux

package verbs_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// These tests inject faults between simulated devices.

// numbered sends datagrams that contain consecutive numbers.
type numbered struct {
	*testing.T
	a, b *side
	ah   *verbs.AH
	next byte
}

func newNumbered(t *testing.T, r *rig) *numbered {
	t.Helper()
	a, b := ends(t, r)
	path := r.local.To(r.peer.gid)
	return &numbered{T: t, a: a, b: b, ah: must(a.pd.CreateAH(&path))(t)}
}

// send sends the next n datagrams.
func (d *numbered) send(n int) {
	d.Helper()
	for range n {
		d.next++
		d.b.recv(d.T, verbs.RecvWR{ID: 1, SGList: d.b.at(100*int(d.next), 60)}, verbs.RecvWR{ID: 1, SGList: d.b.at(100*int(d.next)+10000, 60)})
		d.a.buf[0] = d.next
		d.a.send(d.T, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: d.a.at(0, 20), AH: d.ah, RemoteQPN: d.b.qp.QPN(), RemoteQKey: qkey})
		d.a.done(d.T, 0, verbs.WCSend)
	}
}

// got checks the numbers received so far, in order. Receives are used in the order of posting; send
// posts two for each datagram.
func (d *numbered) got(want ...byte) {
	d.Helper()
	var wc [1]verbs.WC
	var got []byte
	for d.b.cq.Poll(wc[:]) == 1 {
		got = append(got, d.b.buf[d.at(len(got))+verbs.GRHLength])
	}
	if !bytes.Equal(got, want) {
		d.Errorf("%d have come, want %d", got, want)
	}
}

func (d *numbered) at(i int) int { return 100*(i/2+1) + i%2*10000 }

// number returns the number in a datagram.
func number(m *verbstest.Message) byte { return m.Head[0] }

func TestFaultsDatagrams(t *testing.T) {
	late := verbstest.Fate{Hold: 2}
	for what, c := range map[string]struct {
		hook   verbstest.Hook
		send   int
		want   []byte
		counts verbstest.Counts
	}{
		"none":       {nil, 3, []byte{1, 2, 3}, verbstest.Counts{Messages: 3}},
		"the second": {verbstest.Nth(2, verbstest.Any, verbstest.Fate{Drop: true}), 5, []byte{1, 3, 4, 5}, verbstest.Counts{Messages: 5, Dropped: 1}},
		"every second": {verbstest.Every(2, verbstest.Datagrams, verbstest.Fate{Drop: true}), 5, []byte{1, 3, 5},
			verbstest.Counts{Messages: 5, Dropped: 2}},
		"no requests": {verbstest.Every(1, verbstest.Requests, verbstest.Fate{Drop: true}), 2, []byte{1, 2}, verbstest.Counts{Messages: 2}},
		"by what they hold": {verbstest.When(func(m *verbstest.Message) bool { return number(m) > 3 }, verbstest.Fate{Drop: true}), 5, []byte{1, 2, 3},
			verbstest.Counts{Messages: 5, Dropped: 2}},
		"twice": {verbstest.Nth(2, verbstest.Any, verbstest.Fate{Copies: 2}), 3, []byte{1, 2, 2, 2, 3}, verbstest.Counts{Messages: 3, Copied: 2}},
		"late":  {verbstest.Nth(1, verbstest.Any, late), 4, []byte{2, 3, 1, 4}, verbstest.Counts{Messages: 4, Held: 1}},
		"a late copy": {verbstest.Nth(1, verbstest.Any, verbstest.Fate{Copies: 1, Hold: 2}), 4, []byte{1, 2, 1, 3, 4},
			verbstest.Counts{Messages: 4, Held: 1, Copied: 1}},
		"the first that finds a fault": {verbstest.First(verbstest.Nth(1, verbstest.Any, late), verbstest.When(verbstest.Any, verbstest.Fate{Copies: 1})), 3,
			[]byte{2, 2, 3, 3, 1}, verbstest.Counts{Messages: 3, Held: 1, Copied: 2}},
	} {
		t.Run(what, func(t *testing.T) {
			r := fabricRig(t)
			d := newNumbered(t, r)
			n := r.kernel.Fabric()
			n.SetHook(c.hook)
			d.send(c.send)
			d.got(c.want...)
			if got := n.Counts(); got != c.counts {
				t.Errorf("%+v, want %+v", got, c.counts)
			}
		})
	}
}

// TestFaultsMessage checks what a hook learns about messages.
func TestFaultsMessage(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	var seen []verbstest.Message
	n.SetHook(func(m *verbstest.Message) verbstest.Fate {
		one := *m
		one.Head = bytes.Clone(m.Head)
		seen = append(seen, one)
		return verbstest.Fate{}
	})
	a, b := r.pair(t, verbs.RC, impatient(0))
	fill(a.buf, 1)
	head := append(bytes.Clone(a.buf[:3]), a.buf[50:50+125]...)
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 400)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 3), a.mr.SGE(50, 300)}},
		verbs.SendWR{Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGList: a.at(0, 100), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.poll(t, 2)
	u, _ := ends(t, r)
	nowhere := r.local.To(verbs.GID{15: 77})
	ah := must(u.pd.CreateAH(&nowhere))(t)
	u.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 2), AH: ah, RemoteQPN: 99, RemoteQKey: qkey})
	if len(seen) != 3 {
		t.Fatalf("%d messages: %+v", len(seen), seen)
	}
	want := verbstest.Message{Number: 1, From: r.kernel, To: r.peer.kernel, FromPort: 1, FromQP: uint32(a.qp.QPN()), ToQP: uint32(b.qp.QPN()),
		Opcode: uint32(verbs.WRSend), Length: 303}
	if m := seen[0]; !bytes.Equal(m.Head, head) || m.Number != want.Number || m.From != want.From || m.To != want.To || m.FromPort != want.FromPort || m.FromQP != want.FromQP ||
		m.ToQP != want.ToQP || m.Opcode != want.Opcode || m.Length != want.Length || m.Datagram || m.Try != 0 {
		t.Errorf("%+v, want %+v", m, want)
	}
	if m := seen[1]; m.Opcode != uint32(verbs.WRRDMARead) || len(m.Head) != 0 || m.Length != 100 {
		t.Errorf("a read: %+v", m)
	}
	if m := seen[2]; m.To != nil || !m.Datagram || m.ToQP != 99 || m.FromQP != uint32(u.qp.QPN()) || len(m.Head) != 2 {
		t.Errorf("to nowhere: %+v", m)
	}
	if from := verbstest.From(r.peer.kernel); from(&seen[0]) || !verbstest.From(r.kernel)(&seen[0]) {
		t.Error("From")
	}
}

// TestFaultsRelease holds datagrams until they are released, or for some rounds.
func TestFaultsRelease(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	d := newNumbered(t, r)
	n.SetHook(verbstest.When(func(m *verbstest.Message) bool { return number(m)%2 == 1 }, verbstest.Fate{Hold: verbstest.UntilReleased}))
	d.send(4)
	for range 100 {
		n.Progress()
	}
	d.got(2, 4)
	if n.Held() != 2 {
		t.Errorf("%d held", n.Held())
	}
	clear(d.b.buf)
	n.Release()
	if wcs := d.b.poll(t, 2); n.Held() != 0 || wcs[0].ByteLen != 60 || d.b.buf[d.at(2)+40] != 1 || d.b.buf[d.at(3)+40] != 3 {
		t.Errorf("%d held; %+v", n.Held(), wcs)
	}
	// A datagram held for a number of messages, none of which come, is delivered after as many
	// rounds.
	n.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Hold: 3}))
	d.send(1)
	for i := range 3 {
		if d.b.cq.Poll(make([]verbs.WC, 1)) != 0 {
			t.Errorf("after %d looks", i)
		}
		n.Progress()
	}
	d.b.poll(t, 1)
	// A held datagram is lost if its receiver is closed or the link is down by then.
	d.send(1)
	r.peer.kernel.SetPort(false)
	n.Release()
	if n.Held() != 0 || d.b.cq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("it has arrived by a link that is down")
	}
	r.peer.kernel.SetPort(true)
	d.send(1)
	check(t, d.b.qp.Close())
	n.Release()
	if n.Held() != 0 {
		t.Error("held for nobody")
	}
}

// TestReleaseOrder: held requests of several queue pairs go on in the order in which they were sent.
func TestReleaseOrder(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	var sides, ends []*side
	for range 4 {
		a, b := r.pair(t, verbs.RC)
		sides, ends = append(sides, a), append(ends, b)
	}
	seen := make(map[uint32]bool)
	var second []uint32 // queue pairs in the order of their second requests
	n.SetHook(func(m *verbstest.Message) verbstest.Fate {
		if seen[m.FromQP] {
			second = append(second, m.FromQP)
			return verbstest.Fate{}
		}
		seen[m.FromQP] = true
		return verbstest.Fate{Hold: verbstest.UntilReleased}
	})
	var want []uint32
	for i, a := range sides {
		writes(t, a, ends[i], 10, 2)
		want = append(want, uint32(a.qp.QPN()))
	}
	if n.Held() != 4 {
		t.Errorf("%d held", n.Held())
	}
	n.Release()
	if !slices.Equal(second, want) || n.Held() != 0 {
		t.Errorf("%d go on, want %d; %d held", second, want, n.Held())
	}
	for _, a := range sides {
		a.completed(t, 10, 2)
	}
}

// TestReleaseBetweenSteps: a request that is held is released too where another queue pair has used
// up the steps before it.
func TestReleaseBetweenSteps(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	a, b := r.pair(t, verbs.RC)
	c, d := r.pair(t, verbs.RC)
	n.SetWork(verbstest.InStep)
	n.SetHook(verbstest.Nth(1, verbstest.Any, verbstest.Fate{Hold: verbstest.UntilReleased}))
	writes(t, a, b, 10, 1)
	n.Step(9)
	writes(t, c, d, 20, 2)
	n.Step(1)
	c.completed(t, 20, 1)
	if n.Held() != 1 {
		t.Errorf("%d held", n.Held())
	}
	n.Release()
	n.Step(9)
	a.completed(t, 10, 1)
	c.completed(t, 21, 1)
}

// TestFaultsRetries loses requests of reliable connections: they are retried up to the limit, and
// later requests wait.
func TestFaultsRetries(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	lose := verbstest.Fate{Drop: true}
	for most := range uint8(7) {
		// As many losses as the limit allows.
		a, b := r.pair(t, verbs.RC, impatient(most))
		count := 0
		n.SetHook(func(m *verbstest.Message) verbstest.Fate {
			if m.Try != count {
				t.Errorf("try %d is called %d", count, m.Try)
			}
			if count++; count <= int(most) {
				return lose
			}
			n := count
			count = 0
			if n != int(most)+1 {
				t.Errorf("%d tries", n)
			}
			return verbstest.Fate{}
		})
		a.works(t, b, most)
		// One loss more.
		count = 0
		n.SetHook(func(*verbstest.Message) verbstest.Fate { count++; return lose })
		a.fails(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}, verbs.WCRetryExcErr)
		if count != int(most)+1 {
			t.Errorf("%d tries with %d retries", count, most)
		}
		n.SetHook(nil)
		b.nothing(t, "the peer")
	}
	// A lost request is sent again at once.
	a, b := r.pair(t, verbs.RC, impatient(7))
	n.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{Drop: m.Try < 10} })
	writes(t, a, b, 1, 1)
	a.completed(t, 1, 1)
	// The retry count 7 means forever.
	n.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{Drop: m.Try < 1000} })
	a.works(t, b, 1)
	// UC retransmits nothing.
	n.SetHook(verbstest.Nth(1, verbstest.Any, lose))
	u, v := r.pair(t, verbs.UC)
	for i := range 2 {
		v.recv(t, verbs.RecvWR{ID: 1, SGList: v.at(0, 8)})
		u.buf[0] = byte(i + 1)
		u.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 8)})
		u.done(t, 0, verbs.WCSend)
	}
	if v.done(t, 1, verbs.WCRecv); v.buf[0] != 2 {
		t.Errorf("%d arrived", v.buf[0])
	}
	v.nothing(t, "UC")
}

// TestFaultsAnswers loses acknowledgments: each request must be executed only once.
func TestFaultsAnswers(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	a, b := r.pair(t, verbs.RC, impatient(3))
	n.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{NoAnswer: m.Try < 2} })
	b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8)}, verbs.RecvWR{ID: 2, SGList: b.at(8, 8)})
	add := verbs.SendWR{Opcode: verbs.WRAtomicFetchAndAdd, Flags: verbs.SendSignaled, SGList: a.at(100, 8), RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey(), CompareAdd: 5}
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)}, add)
	a.done(t, 0, verbs.WCFetchAdd)
	b.done(t, 1, verbs.WCRecv)
	b.nothing(t, "a message that came once")
	if b.buf[64] != 5 || n.Counts().AnswersLost != 4 {
		t.Errorf("the word is %d, %+v", b.buf[64], n.Counts())
	}
	// The sender gives up on a request that the receiver has executed.
	n.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{NoAnswer: true}))
	a.send(t, verbs.SendWR{ID: 7, Opcode: verbs.WRSend, SGList: a.at(0, 8)})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRetryExcErr || wc.ID != 7 {
		t.Errorf("%+v (%v)", wc, wc.Status)
	}
	b.done(t, 2, verbs.WCRecv)
}

// TestFaultsNotReady makes receivers answer that they have no receive posted.
func TestFaultsNotReady(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	for _, c := range []struct {
		retries uint8
		refused int
		works   bool
	}{{0, 0, true}, {0, 1, false}, {6, 6, true}, {6, 7, false}, {7, 100, true}} {
		a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = c.retries })
		was := n.Counts().NotReady
		n.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{NotReady: m.Try < c.refused} })
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8)})
		write := verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		a.send(t, write) // needs no receive
		a.done(t, 0, verbs.WCRDMAWrite)
		a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
		want := verbs.WCSuccess
		if !c.works {
			want = verbs.WCRNRRetryExcErr
		}
		if wc := a.poll(t, 1)[0]; wc.Status != want || n.Counts().NotReady-was != uint64(c.refused) {
			t.Errorf("%d retries, %d times refused: %v", c.retries, n.Counts().NotReady-was, wc.Status)
		}
	}
}

// TestFaultsLostNotReady checks that only consecutive losses count as retries. A receiver that
// answers that it has no receive ends a row of losses.
func TestFaultsLostNotReady(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	for _, c := range []struct {
		lost  int // losses before each answer
		works bool
	}{{3, true}, {4, false}} {
		a, b := r.pair(t, verbs.RC, impatient(3), func(a *verbs.QPAttr) { a.RNRRetry = 7 })
		n.SetHook(func(m *verbstest.Message) verbstest.Fate {
			answered := m.Try%(c.lost+1) == c.lost
			return verbstest.Fate{Drop: !answered, NotReady: answered && m.Try < 100}
		})
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8)})
		a.send(t, verbs.SendWR{ID: 7, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
		want := verbs.WCSuccess
		if !c.works {
			want = verbs.WCRetryExcErr
		}
		if wc := a.poll(t, 1)[0]; wc.Status != want {
			t.Errorf("%d tries lost in a row: %v, want %v", c.lost, wc.Status, want)
		}
	}
}

// TestFaultsHeldRequest checks that requests after a held one wait on the same connection, and that
// other connections do not.
func TestFaultsHeldRequest(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	a, b := r.pair(t, verbs.RC, impatient(0))
	c, d := r.pair(t, verbs.RC)
	n.SetHook(verbstest.Nth(1, verbstest.Any, verbstest.Fate{Hold: 7}))
	write := func(s, to *side, id uint64) {
		s.send(t, verbs.SendWR{ID: id, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: s.at(0, 8), RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
	}
	write(a, b, 1)
	write(a, b, 2)
	for i := range uint64(5) {
		write(c, d, i)
		c.done(t, i, verbs.WCRDMAWrite)
	}
	a.nothing(t, "behind what is held")
	if n.Held() != 1 {
		t.Errorf("%d held", n.Held())
	}
	if r.peer.kernel.Step(1); n.Held() != 1 { // a step counts, since no message is sent
		t.Errorf("%d held after a step of the other device", n.Held())
	}
	write(c, d, 5)
	a.completed(t, 1, 2) // both at once
	n.SetHook(verbstest.Nth(1, verbstest.Any, verbstest.Fate{Hold: 1}))
	write(a, b, 8)
	n.Progress()
	a.completed(t, 8, 1)
	n.SetHook(verbstest.Nth(1, verbstest.Any, verbstest.Fate{Hold: verbstest.UntilReleased}))
	write(a, b, 3)
	n.Progress()
	a.nothing(t, "held for ever")
	n.Release()
	a.done(t, 3, verbs.WCRDMAWrite)
}

// TestFaultsRandom checks that a reliable connection loses, duplicates and reorders nothing, and
// that the same seed causes the same faults.
func TestFaultsRandom(t *testing.T) {
	run := func(seed uint64) verbstest.Counts {
		r := fabricRig(t)
		n := r.kernel.Fabric()
		a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RetryCount, a.RNRRetry = 7, 7 })
		d := newNumbered(t, r)
		n.SetHook(verbstest.Random(seed, verbstest.Chances{Drop: 0.1, Copy: 0.1, Hold: 0.1, NoAnswer: 0.1, NotReady: 0.1}))
		for i := range 200 {
			b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 8)})
			a.buf[0] = byte(i)
			a.send(t, verbs.SendWR{ID: uint64(i), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
			a.done(t, uint64(i), verbs.WCSend)
			if b.done(t, uint64(i), verbs.WCRecv); b.buf[0] != byte(i) {
				t.Fatalf("message %d holds %d", i, b.buf[0])
			}
			if i%8 == 0 {
				d.send(1)
			}
		}
		n.SetHook(nil)
		n.Release()
		a.nothing(t, "the sender")
		b.nothing(t, "the receiver")
		c := n.Counts()
		if c.Dropped == 0 || c.Copied == 0 || c.Held == 0 || c.AnswersLost == 0 || c.NotReady == 0 {
			t.Errorf("%+v", c)
		}
		return c
	}
	one, same, other := run(1), run(1), run(2)
	if one != same || one == other {
		t.Errorf("%+v, %+v; %+v", one, same, other)
	}
}

// TestFaultsKill kills a process that has both devices open. Its peers notice when they send; calls
// of the process itself fail.
func TestFaultsKill(t *testing.T) {
	ucttest.NoLeaks(t)
	r := fabricRigs(t, verbstest.NewFabric(), verbstest.Config{}, verbstest.Config{})
	var p verbstest.Process
	doomed := *r.peer
	doomed.open = func(t *testing.T) *verbs.Context {
		c := must(verbs.NewContext(p.Open(r.peer.kernel), 2))(t)
		t.Cleanup(func() { check(t, c.Close()) })
		return c
	}
	r.peer = &doomed
	a, b := r.pair(t, verbs.RC, impatient(2))
	c, d := r.pair(t, verbs.RC)
	u, v := ends(t, r)
	a.works(t, b, 1)
	path := r.local.To(doomed.gid)
	datagram(t, u, v, path, true)
	b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8)})
	p.Kill()
	for _, s := range []*side{a, c} {
		s.nothing(t, "who does not send")
		if e, ok, err := s.ctx.TryAsyncEvent(); ok || err != nil {
			t.Errorf("%v, %v", e, err)
		}
	}
	if e, ok, err := b.ctx.TryAsyncEvent(); ok || err != nil || b.cq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Errorf("the dead learn of it: %v, %v", e, err)
	}
	if n := r.peer.kernel.Objects(); n != 0 {
		t.Errorf("%d objects left", n)
	}
	a.send(t, verbs.SendWR{ID: 9, Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRetryExcErr || wc.ID != 9 {
		t.Errorf("%+v (%v)", wc, wc.Status)
	}
	ah := must(u.pd.CreateAH(&path))(t)
	u.send(t, verbs.SendWR{ID: 4, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 8), AH: ah, RemoteQPN: v.qp.QPN(), RemoteQKey: qkey})
	u.done(t, 4, verbs.WCSend)
	_, err := d.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend}})
	wantErr(t, err, ucs.ErrIO, "a send of the dead")
	_, err = d.ctx.AllocPD()
	wantErr(t, err, ucs.ErrIO, "a call of the dead")
	p.Kill()
}

// TestFaultsRemove removes a device with connections: its own queue pairs get no completions, and
// their peers notice when they send.
func TestFaultsRemove(t *testing.T) {
	r := fabricRig(t)
	a, b := r.pair(t, verbs.RC, impatient(1))
	a.works(t, b, 1)
	var to *verbstest.Kernel
	r.kernel.Fabric().SetHook(func(m *verbstest.Message) verbstest.Fate {
		to = m.To
		return verbstest.Fate{Hold: btoi(m.Datagram)}
	})
	d := newNumbered(t, r)
	d.send(2)
	if to != r.peer.kernel {
		t.Error("to somebody else")
	}
	r.peer.kernel.Remove()
	if e := must(b.ctx.GetAsyncEvent(timeout(t)))(t); e.Type != verbs.EventDeviceFatal {
		t.Errorf("%v", e)
	}
	a.nothing(t, "who does not send")
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRetryExcErr {
		t.Errorf("%+v (%v)", wc, wc.Status)
	}
	if to != nil {
		t.Error("to a device that is gone")
	}
	r.kernel.Remove()
	if e := must(a.ctx.GetAsyncEvent(timeout(t)))(t); e.Type != verbs.EventDeviceFatal {
		t.Errorf("%v", e)
	}
	r.kernel.Progress()
}

// TestFaultsAllocate checks that faults injected by a hook allocate nothing.
func TestFaultsAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r := fabricRig(t)
	n := r.kernel.Fabric()
	n.SetHook(verbstest.Random(3, verbstest.Chances{Drop: 0.2, Copy: 0.2, Hold: 0.3}))
	a, b := ends(t, r)
	path := r.local.To(r.peer.gid)
	ah := must(a.pd.CreateAH(&path))(t)
	wr := []verbs.SendWR{{Opcode: verbs.WRSend, SGList: a.at(0, 100), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey}}
	recv := []verbs.RecvWR{{SGList: b.at(0, 200)}}
	wc := make([]verbs.WC, 4)
	if allocs := testing.AllocsPerRun(2000, func() {
		b.qp.PostRecv(recv)
		a.qp.PostSend(wr)
		b.cq.Poll(wc)
	}); allocs != 0 {
		t.Errorf("%v times", allocs)
	}
	if c := n.Counts(); c.Held == 0 || c.Copied == 0 {
		t.Errorf("%+v", c)
	}
}
