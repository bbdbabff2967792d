//go:build linux

package verbs_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/paper"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// What package verbs does with a provider that is unlike soft-RoCE: see package paper.

// paperRig is the device that exists on paper. change is done to each that is opened.
func paperRig(t *testing.T, change ...func(*paper.Device)) *rig {
	t.Helper()
	ucttest.NoLeaks(t)
	k := verbstest.New()
	var devices []*paper.Device
	t.Cleanup(func() {
		if k.Objects() != 0 || k.Mapped() != 0 || paper.Queues() != 0 {
			t.Errorf("%d objects, %d mappings and %d queues left behind", k.Objects(), k.Mapped(), paper.Queues())
		}
		for _, d := range devices {
			if d.Mapped() {
				t.Error("a page left behind")
			}
		}
	})
	r := &rig{kernel: k}
	r.run = func() { paper.Run(devices...) }
	r.open = func(t *testing.T) *verbs.Context {
		t.Helper()
		d := paper.Open(k)
		for _, f := range change {
			f(d)
		}
		devices = append(devices, d)
		c := must(verbs.NewContext(d, 1))(t)
		if c.Driver() != "paper" {
			t.Fatalf("the driver is %s", c.Driver())
		}
		t.Cleanup(func() { check(t, c.Close()) })
		return c
	}
	r.find(t)
	return r
}

// TestPaper is what of the suite does not look at the numbers of rdma_rxe.
func TestPaper(t *testing.T) {
	of := map[string]bool{"Query": true, "SendRecv": true, "RDMA": true, "Atomics": true, "Inline": true, "Gather": true, "Batch": true, "Post": true,
		"UD": true, "Foreign": true, "Rereg": true}
	ran := 0
	for _, s := range suite {
		if of[s.name] {
			ran++
			t.Run(s.name, func(t *testing.T) { s.test(t, paperRig(t)) })
		}
	}
	if ran != len(of) {
		t.Errorf("%d tests of %d", ran, len(of))
	}
}

// TestPaperWraps sends inline data of every length, so that requests of all lengths
// begin and end everywhere in the queue; and what is begun and not rung is forgotten
// there too.
func TestPaperWraps(t *testing.T) {
	r := paperRig(t)
	a, b := r.pair(t, verbs.RC)
	most := a.qp.Cap().MaxInline
	data := make([]byte, most)
	for n := range 3*most + 1 {
		n %= most + 1
		fill(data, byte(n))
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, most+1)})
		p := a.qp.Begin()
		p.Send(9, 0)
		p.Inline(data)
		p = a.qp.Begin() // that was not it
		p.Send(2, verbs.SendSignaled)
		p.Inline(data[:n/3])
		p.Inline(data[n/3 : n])
		if k, err := p.Ring(); k != 1 || err != nil {
			t.Fatalf("%d bytes: %d posted: %v", n, k, err)
		}
		a.done(t, 2, verbs.WCSend)
		if wc := b.done(t, 1, verbs.WCRecv); int(wc.ByteLen) != n || !bytes.Equal(b.buf[:n], data[:n]) {
			t.Fatalf("%d bytes: %+v, or wrong bytes", n, wc)
		}
	}
	p := a.qp.Begin()
	p.Send(1, 0)
	p.Inline(make([]byte, most))
	p.Inline([]byte{1})
	_, err := p.Ring()
	wantErr(t, err, ucs.ErrExceedsLimit, "more than fits")
}

// TestPaperLimits: what a queue takes is what its provider says, in whichever way
// the kernel is asked and whatever it answers.
func TestPaperLimits(t *testing.T) {
	r := paperRig(t)
	a, b := r.pair(t, verbs.RC)
	want := verbs.QPCap{MaxSendWR: 85, MaxRecvWR: 64, MaxSendSGE: 8, MaxRecvSGE: 3, MaxInline: 128}
	if c := a.qp.Cap(); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if q := must(a.qp.Query(verbs.QPAttrCap))(t); q.Cap != want {
		t.Errorf("%+v, want %+v", q.Cap, want)
	}
	cq := must(a.ctx.CreateCQ(100, nil, 0))(t)
	if cq.CQE() != 126 {
		t.Errorf("room for %d completions", cq.CQE())
	}
	srq := must(a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 5, MaxSGE: 1}))(t)
	if srq.MaxWR() != 8 || srq.MaxSGE() != 3 {
		t.Errorf("room for %d receives of %d pieces", srq.MaxWR(), srq.MaxSGE())
	}
	check(t, srq.SetLimit(2))
	n, err := srq.PostRecv(make([]verbs.RecvWR, 10))
	wantErr(t, err, ucs.ErrNoResource, "a full queue")
	if n != 8 {
		t.Errorf("%d receives posted", n)
	}
	_, err = b.qp.PostRecv([]verbs.RecvWR{{SGList: make([]verbs.SGE, 4)}})
	wantErr(t, err, ucs.ErrInvalidParam, "more pieces than there are")
	wr := make([]verbs.SendWR, 400)
	for i := range wr {
		wr[i] = verbs.SendWR{Opcode: verbs.WRRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	}
	n, err = a.qp.PostSend(wr)
	wantErr(t, err, ucs.ErrNoResource, "a full queue")
	if n < want.MaxSendWR {
		t.Errorf("%d sends posted of %d", n, want.MaxSendWR)
	}
}

// TestPaperOpen: what a device maps as a whole may fail, and nothing stays behind.
func TestPaperOpen(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*paper.Device)
		want   error
	}{
		"no mapping":       {func(d *paper.Device) { d.MapFails = syscall.ENOMEM }, ucs.ErrNoMemory},
		"a page of 1 byte": {func(d *paper.Device) { d.PageSize = 1 }, ucs.ErrIO},
	} {
		ucttest.NoLeaks(t)
		k := verbstest.New()
		d := paper.Open(k)
		c.change(d)
		_, err := verbs.NewContext(d, 1)
		wantErr(t, err, c.want, what)
		if k.Objects() != 0 || k.Mapped() != 0 || d.Mapped() {
			t.Errorf("%s: something is left", what)
		}
	}
	k := verbstest.New()
	k.FailCall("ASYNC_EVENT.ALLOC", 0, syscall.EMFILE) // after the page
	d := paper.Open(k)
	_, err := verbs.NewContext(d, 1)
	wantErr(t, err, syscall.EMFILE, "no events")
	if d.Mapped() {
		t.Error("a page is left")
	}
	_, err = verbs.NewContext(paper.Open(k), 2)
	wantErr(t, err, ucs.ErrUnsupported, "another version")
}

// TestPaperReset: a queue pair that was reset begins where its device does, and
// forgets what it had.
func TestPaperReset(t *testing.T) {
	r := paperRig(t)
	a, b := r.pair(t, verbs.RC)
	for round := range byte(3) {
		a.works(t, b, round)
		b.recv(t, verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2}) // not to be seen again
		a.qp.Begin().Send(99, verbs.SendSignaled)
		for _, s := range []*side{a, b} {
			check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		}
		a.up(t, b)
		b.up(t, a)
	}
	a.works(t, b, 9)
}

// TestPaperEvents: the device makes an event only after the one before is taken, by
// whichever call.
func TestPaperEvents(t *testing.T) {
	r := paperRig(t)
	a, b := r.pair(t, verbs.RC)
	ch := b.cq.Channel()
	for i := range uint64(10) {
		check(t, b.cq.ReqNotify(i%3 == 2))
		b.recv(t, verbs.RecvWR{ID: i})
		r.run()
		a.send(t, verbs.SendWR{ID: i, Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendSolicited})
		a.done(t, i, verbs.WCSend)
		if i%2 == 0 {
			if q, ok, err := ch.TryEvent(); q != b.cq || !ok || err != nil {
				t.Fatalf("event %d: %v, %v: %v", i, q, ok, err)
			}
		} else if q := must(ch.GetEvent(timeout(t)))(t); q != b.cq {
			t.Fatalf("event %d is of %v", i, q)
		}
		b.done(t, i, verbs.WCRecv)
	}
}

// TestPaperGone: completions of a queue pair that is closed do not come any more.
func TestPaperGone(t *testing.T) {
	r := paperRig(t)
	a, b := r.pair(t, verbs.RC)
	for i := range uint64(3) {
		a.send(t, verbs.SendWR{ID: i, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	r.run()
	check(t, a.qp.Close())
	if n := a.cq.Poll(make([]verbs.WC, 4)); n != 0 {
		t.Errorf("%d completions", n)
	}
}

// TestPaperResize: what is in a completion queue comes along, and a kernel that
// refuses changes nothing.
func TestPaperResize(t *testing.T) {
	r := paperRig(t)
	a, b := r.pair(t, verbs.RC)
	write := func(id uint64) {
		a.send(t, verbs.SendWR{ID: id, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	next := uint64(0)
	for i, size := range []int{7, 1000, 20, 3} {
		for k := range uint64(3) {
			write(next + k)
		}
		r.run()
		if i == 2 {
			wantErr(t, a.cq.Resize(2), ucs.ErrInvalidParam, "less than what is there")
			r.kernel.FailCall("RESIZE_CQ", 0, syscall.ENOMEM)
			wantErr(t, a.cq.Resize(50), syscall.ENOMEM, "a kernel that refuses")
		}
		check(t, a.cq.Resize(size))
		if n := a.cq.CQE(); n < size || n > 2*size {
			t.Errorf("room for %d completions, not %d", n, size)
		}
		for range 3 {
			a.done(t, next, verbs.WCRDMAWrite)
			next++
		}
		write(next)
		a.done(t, next, verbs.WCRDMAWrite)
		next++
	}
}

// TestPaperLacks: what a device lacks is refused by name and with the reason, before
// the kernel is asked.
func TestPaperLacks(t *testing.T) {
	r := paperRig(t, func(d *paper.Device) { d.Lacks = 1<<provider.Features - 1 })
	a, b := r.pair(t, verbs.RC)
	path := r.path()
	calls := map[provider.Feature][]func() error{
		provider.FeatureUC: {func() error {
			_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UC, SendCQ: a.cq, RecvCQ: a.cq})
			return err
		}},
		provider.FeatureUD: {func() error {
			_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UD, SendCQ: a.cq, RecvCQ: a.cq})
			return err
		}, func() error { _, err := a.pd.CreateAH(&path); return err }},
		provider.FeatureSRQ:      {func() error { _, err := a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1}); return err }},
		provider.FeatureEvents:   {func() error { return a.cq.ReqNotify(false) }, func() error { return a.cq.ReqNotify(true) }},
		provider.FeatureResizeCQ: {func() error { return a.cq.Resize(10) }},
		provider.FeatureAtomics: {func() error {
			_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRAtomicCmpAndSwp, SGList: a.at(0, 8)}})
			return err
		}, func() error {
			p := a.qp.Begin()
			p.FetchAdd(1, 0, b.mr.Addr(), b.mr.RKey(), 1)
			return p.Err()
		}},
		provider.FeatureMW: {func() error { _, err := a.pd.AllocMW(); return err }, func() error {
			p := a.qp.Begin()
			p.BindMW(1, 0, verbs.MWBind{})
			return p.Err()
		}, func() error { _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRLocalInv}}); return err },
			func() error { _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSendWithInv}}); return err }},
	}
	for f := range provider.Features {
		for _, call := range calls[f] {
			err := call()
			wantErr(t, err, ucs.ErrUnsupported, f.String())
			if err == nil || !strings.Contains(err.Error(), f.String()+" with paper: nobody has drawn it") {
				t.Errorf("%v: %v", f, err)
			}
		}
		if len(calls[f]) == 0 && f != provider.FeatureResizeSRQ {
			t.Errorf("nobody asks for %v", f)
		}
	}
	a.works(t, b, 1)
}

// TestPaperLacksSome: what a device lacks does not hinder the rest.
func TestPaperLacksSome(t *testing.T) {
	r := paperRig(t, func(d *paper.Device) { d.Lacks = 1 << provider.FeatureResizeSRQ })
	s := r.newSide(t, verbs.RC)
	srq := must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1}))(t)
	err := srq.Resize(10)
	wantErr(t, err, ucs.ErrUnsupported, "a resize")
	if err == nil || !strings.Contains(err.Error(), "resizing shared receive queues with paper: nobody has drawn it") {
		t.Error(err)
	}
	check(t, s.cq.Resize(300))
	_, err = s.ctx.CreateCQ(1<<20, nil, 0)
	wantErr(t, err, ucs.ErrInvalidParam, "what the kernel refuses")
}

// TestPaperFaults makes each call of the kernel that creates fail, and
// what the provider has prepared is given back.
func TestPaperFaults(t *testing.T) {
	for _, name := range []string{"DEVICE.GET_CONTEXT", "ASYNC_EVENT.ALLOC", "CQ.CREATE", "SRQ.CREATE", "QP.CREATE", "CREATE_AH", "RESIZE_CQ"} {
		for skip := range 4 {
			ucttest.NoLeaks(t)
			k := verbstest.New()
			k.FailCall(name, skip, syscall.ENOMEM)
			d := paper.Open(k)
			err := func() error {
				c, err := verbs.NewContext(d, 1)
				if err != nil {
					return err
				}
				defer func() { check(t, c.Close()) }()
				pd := must(c.AllocPD())(t)
				cq, err := c.CreateCQ(4, nil, 0)
				if err != nil {
					return err
				}
				if err := cq.Resize(100); err != nil {
					return err
				}
				if _, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}); err != nil {
					return err
				}
				if _, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}); err != nil {
					return err
				}
				gid := must(c.DefaultGID(1))(t)
				to := gid.To(gid.GID)
				_, err = pd.CreateAH(&to)
				return err
			}()
			if k.Objects() != 0 || k.Mapped() != 0 || d.Mapped() || paper.Queues() != 0 {
				t.Errorf("%s: %d objects, %d mappings and %d queues left behind", name, k.Objects(), k.Mapped(), paper.Queues())
			}
			if skip == 0 && err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}
