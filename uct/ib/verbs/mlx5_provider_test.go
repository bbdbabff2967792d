//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// eachMode runs a test in all modes, with and without BlueFlame.
func eachMode(t *testing.T, test func(t *testing.T, cfg verbstest.MLX5)) {
	for _, m := range modes {
		for _, blue := range []string{"", "1"} {
			t.Run(m.name+", BlueFlame "+blue, func(t *testing.T) {
				t.Setenv("VERBS_BLUEFLAME", blue)
				test(t, m.cfg)
			})
		}
	}
}

// TestMLX5Wraps sends inline data of every length, so that requests of all lengths begin and end at
// all places of the queue. Requests that were begun but not rung must not appear there.
func TestMLX5Wraps(t *testing.T) {
	eachMode(t, func(t *testing.T, cfg verbstest.MLX5) {
		r := mlx5Rig(t, cfg)
		a, b := r.pair(t, verbs.RC)
		most := a.qp.Cap().MaxInline
		data := make([]byte, most)
		for n := range 2*most + 2 {
			n = n * 7 % (most + 1)
			fill(data, byte(n))
			b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, most+1)})
			p := a.qp.Begin()
			p.Send(9, 0)
			p.Inline(data)
			p = a.qp.Begin() // drops the request before
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
	})
}

// TestMLX5Limits checks that the announced capacity of queues is what fits into their memory,
// whatever was asked for and whatever the kernel answers.
func TestMLX5Limits(t *testing.T) {
	r := mlx5Rig(t, verbstest.MLX5{})
	s := r.newSide(t, verbs.RC, func(a *verbs.QPInitAttr) {
		a.Cap = verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 2, MaxRecvSGE: 3, MaxInline: 200}
	})
	want := verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 2, MaxRecvSGE: 4, MaxInline: 252} // as libmlx5 44.0
	if c := s.qp.Cap(); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if q := must(s.qp.Query(verbs.QPAttrCap))(t); q.Cap != want {
		t.Errorf("%+v, want %+v", q.Cap, want)
	}
	if cq := must(s.ctx.CreateCQ(100, nil, 0))(t); cq.CQE() != 127 {
		t.Errorf("room for %d completions", cq.CQE())
	}
	srq := must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 5, MaxSGE: 2}))(t)
	if srq.MaxWR() != 7 || srq.MaxSGE() != 3 {
		t.Errorf("room for %d receives of %d pieces", srq.MaxWR(), srq.MaxSGE())
	}
	wantErr(t, srq.Resize(100), ucs.ErrUnsupported, "another size")
	a := verbs.QPInitAttr{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 1 << 30, MaxSendSGE: 1}}
	_, err := s.pd.CreateQP(&a)
	wantErr(t, err, ucs.ErrInvalidParam, "too many sends")
	_, err = s.ctx.CreateCQ(1<<24, nil, 0)
	wantErr(t, err, ucs.ErrInvalidParam, "too many completions")
	_, err = s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1 << 20})
	wantErr(t, err, ucs.ErrInvalidParam, "too many shared receives")
	cq := s.cq.CQE()
	if check(t, s.cq.Resize(cq)); s.cq.CQE() != cq {
		t.Errorf("room for %d, after a resize to %d", s.cq.CQE(), cq)
	}
}

// TestMLX5Reset checks that a queue pair that was reset begins at the same index as its device, and
// drops its previous requests.
func TestMLX5Reset(t *testing.T) {
	r := mlx5Rig(t, verbstest.MLX5{})
	a, b := r.pair(t, verbs.RC)
	for round := range byte(3) {
		a.works(t, b, round)
		b.recv(t, verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2}) // must not complete
		a.qp.Begin().Send(99, verbs.SendSignaled)
		for _, s := range []*side{a, b} {
			check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		}
		a.up(t, b)
		b.up(t, a)
	}
	a.works(t, b, 9)
}

// TestMLX5Events checks that the device raises an event only after the previous one was taken, by
// any call.
func TestMLX5Events(t *testing.T) {
	r := mlx5Rig(t, verbstest.MLX5{})
	a, b := r.pair(t, verbs.RC)
	ch := b.cq.Channel()
	for i := range uint64(10) {
		check(t, b.cq.ReqNotify(i%3 == 2))
		b.recv(t, verbs.RecvWR{ID: i})
		r.kernel.Progress()
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

// TestMLX5Gone checks that exactly the completions which a queue pair had when it was closed are
// polled.
func TestMLX5Gone(t *testing.T) {
	r := mlx5Rig(t, verbstest.MLX5{})
	a, b := r.pair(t, verbs.RC)
	write := func(id uint64) {
		a.send(t, verbs.SendWR{ID: id, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	for i := range uint64(3) {
		write(i)
	}
	r.kernel.Progress()
	a.recv(t, verbs.RecvWR{ID: 9})
	check(t, a.qp.Close())
	wc := make([]verbs.WC, 4)
	if n := a.cq.Poll(wc); n != 3 {
		t.Errorf("%d completions", n)
	}
	for i, w := range wc[:3] {
		if w.ID != uint64(i) || w.Status != verbs.WCSuccess || w.Opcode != verbs.WCRDMAWrite || w.QPN != a.qp.QPN() {
			t.Errorf("%+v", w)
		}
	}
}

// TestMLX5Resize checks that unread completions survive a resize, and that a refused resize changes
// nothing.
func TestMLX5Resize(t *testing.T) {
	r := mlx5Rig(t, verbstest.MLX5{})
	a, b := r.pair(t, verbs.RC)
	write := func(id uint64) {
		a.send(t, verbs.SendWR{ID: id, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	next := uint64(0)
	for i, size := range []int{7, 1000, 20, 3} {
		for k := range uint64(3) {
			write(next + k)
		}
		r.kernel.Progress()
		if i == 2 {
			wantErr(t, a.cq.Resize(1), ucs.ErrInvalidParam, "less than what is there")
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

// TestMLX5Faults makes each kernel call fail, and checks that everything prepared for it is
// released.
func TestMLX5Faults(t *testing.T) {
	for _, m := range modes {
		names := []string{"mmap", "DEVICE.GET_CONTEXT", "EX_QUERY_DEVICE", "ASYNC_EVENT.ALLOC", "CQ.CREATE", "SRQ.CREATE", "QP.CREATE", "CREATE_AH", "RESIZE_CQ",
			"DEVICE.QUERY_PORT", "DEVICE.QUERY_GID_ENTRY"}
		if !m.cfg.StaticUARs {
			names = append(names, "UAR.ALLOC")
		}
		for _, name := range names {
			t.Run(m.name+", "+name, func(t *testing.T) {
				for skip := range 4 {
					ucttest.NoLeaks(t)
					k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &m.cfg})
					k.FailCall(name, skip, syscall.ENOMEM)
					err := func() error {
						c, err := verbs.NewContext(k.Open(), 1)
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
					if k.Objects() != 0 || k.Mapped() != 0 {
						t.Errorf("%d objects and %d mappings left behind", k.Objects(), k.Mapped())
					}
					if now, _ := k.Pinned(); now != 0 {
						t.Errorf("%d bytes pinned", now)
					}
					// If a page cannot be mapped uncached, as on kernels before
					// 4.7, another mapping is tried.
					if skip == 0 && err == nil && !(name == "mmap" && m.cfg.StaticUARs) {
						t.Error("no error")
					}
					if err != nil && !errors.Is(err, ucs.ErrNoMemory) {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestMLX5Answers truncates an answer of the kernel at every length. The rest counts as zeros, and
// must be sufficient or refused.
func TestMLX5Answers(t *testing.T) {
	opened := 0
	for n := 1; n < 80; n++ {
		for _, m := range modes {
			ucttest.NoLeaks(t)
			cfg := m.cfg
			cfg.Answer = n
			k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &cfg})
			c, err := verbs.NewContext(k.Open(), 1)
			if err != nil {
				if !errors.Is(err, ucs.ErrUnsupported) && !errors.Is(err, ucs.ErrIO) {
					t.Errorf("%d bytes: %v", n, err)
				}
			} else {
				opened++
				check(t, c.Close())
			}
			if k.Objects() != 0 || k.Mapped() != 0 {
				t.Errorf("%d bytes: %d objects and %d mappings left behind", n, k.Objects(), k.Mapped())
			}
		}
	}
	if opened == 0 {
		t.Error("none is enough")
	}
}

// instantMLX5 is a device that completes all requests successfully when asked to, at almost no
// cost, so that a benchmark measures only posting and polling.
type instantMLX5 struct {
	uverbs.File
	cq   []byte // entries of 64 bytes
	done [64]byte
	next uint32
}

func (d *instantMLX5) Ioctl(f *uverbs.Frame) syscall.Errno {
	r, e := uverbs.Parse(f)
	if e == 0 && r.Spec.Name == "CQ.CREATE" {
		at, n := binary.NativeEndian.Uint64(r.Attr(abi.UVERBS_ATTR_UHW_IN).Bytes), binary.NativeEndian.Uint32(r.Attr(abi.UVERBS_ATTR_CREATE_CQ_CQE).Bytes)
		d.cq = unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), 64*(n+1))
	}
	return d.File.Ioctl(f)
}

// complete writes the completion of a write posted at a block.
func (d *instantMLX5) complete(block uint16) {
	n := uint32(len(d.cq) / 64)
	e := d.cq[d.next%n*64:][:64]
	binary.BigEndian.PutUint16(d.done[60:], block)
	d.done[63] = byte(d.next / n & 1)
	copy(e, d.done[:])
	d.next++
}

// BenchmarkPostPollMLX5 is BenchmarkPostPoll on a simulated mlx5_ib device.
func BenchmarkPostPollMLX5(b *testing.B) {
	for _, c := range []struct {
		name   string
		flags  verbs.SendFlags
		blocks uint16
		post   func(*verbs.QP, *verbs.MR) // nil for PostSend
	}{
		{"inline", verbs.SendInline, 1, nil},
		{"sge", 0, 1, nil},
		{"post-inline", 0, 1, func(qp *verbs.QP, mr *verbs.MR) {
			p := qp.Begin()
			p.Write(0, verbs.SendSignaled, mr.Addr()+64, mr.RKey())
			p.Inline(mr.Bytes()[:8])
			p.Ring()
		}},
		{"post-sge", 0, 1, func(qp *verbs.QP, mr *verbs.MR) {
			p := qp.Begin()
			p.Write(0, verbs.SendSignaled, mr.Addr()+64, mr.RKey())
			p.SGE(mr.SGE(0, 8))
			p.Ring()
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := &instantMLX5{File: verbstest.NewFabric().Add(verbstest.Config{MLX5: &verbstest.MLX5{Version0: true}}).Open()}
			qp, cq, mr := selfPair(b, d, 100)
			binary.BigEndian.PutUint32(d.done[56:], 0x08<<24|uint32(qp.QPN()))
			wr := []verbs.SendWR{{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled | c.flags, Inline: [][]byte{mr.Bytes()[:8]},
				SGList: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 64, RKey: mr.RKey()}}
			wc := make([]verbs.WC, 1)
			block := uint16(0)
			b.ReportAllocs()
			for b.Loop() {
				if c.post != nil {
					c.post(qp, mr)
				} else {
					qp.PostSend(wr)
				}
				d.complete(block)
				block += c.blocks
				if cq.Poll(wc) != 1 || wc[0].Status != verbs.WCSuccess {
					b.Fatalf("%+v", wc[0])
				}
			}
		})
	}
}
