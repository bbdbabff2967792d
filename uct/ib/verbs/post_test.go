//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// seen is a device whose queues are visible to a test, and which ignores doorbells.
type seen struct {
	muffled
	maps [][]byte
}

func (s *seen) Mmap(off uint64, n int) ([]byte, syscall.Errno) {
	b, e := s.File.Mmap(off, n)
	s.maps = append(s.maps, b)
	return b, e
}

// slot returns a request in the ring of sends, which is mapped after the completion queue.
func (s *seen) slot(i int) []byte {
	const header = 384 // struct rxe_queue_buf, rdma_user_rxe.h
	ring := s.maps[1]
	size := 1 << binary.NativeEndian.Uint32(ring)
	return ring[header+i*size:][:size]
}

// poster is a queue pair to post sends to.
type poster struct {
	dev seen
	ctx *verbs.Context
	qp  *verbs.QP
	mr  *verbs.MR
	ah  *verbs.AH
	mw  *verbs.MW
}

func newPoster(t *testing.T, typ verbs.QPType, buf []byte) *poster {
	p := &poster{}
	p.dev.File = verbstest.New().Open()
	c := must(verbs.NewContext(&p.dev, 2))(t)
	p.ctx = c
	pd := must(c.AllocPD())(t)
	cq := must(c.CreateCQ(64, nil, 0))(t)
	p.qp = must(pd.CreateQP(&verbs.QPInitAttr{Type: typ, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 7, MaxSendSGE: 3, MaxRecvWR: 1, MaxInline: 40}}))(t)
	p.mr = must(pd.RegMR(buf, fullAccess|verbs.AccessMWBind))(t)
	gid := must(c.DefaultGID(1))(t)
	a := &verbs.QPAttr{Port: 1, Access: fullAccess, PathMTU: verbs.MTU4096, DestQPN: p.qp.QPN(), AH: gid.To(gid.GID), QKey: qkey}
	check(t, p.qp.Init(a))
	check(t, p.qp.Connect(a))
	p.ah = must(pd.CreateAH(&a.AH))(t)
	p.mw = must(pd.AllocMW())(t)
	return p
}

func (p *poster) close(t *testing.T) { check(t, p.ctx.Close()) }

// request is a work request without the objects of a device.
type request struct {
	wr   verbs.SendWR
	bind bool
	to   bool
}

func drawRequest(t *rapid.T) request {
	r := request{bind: rapid.Bool().Draw(t, "bind"), to: rapid.IntRange(0, 9).Draw(t, "to") > 0}
	r.wr = verbs.SendWR{
		ID: rapid.Uint64().Draw(t, "id"), Opcode: verbs.WROpcode(rapid.IntRange(0, 9).Draw(t, "opcode")),
		Flags: verbs.SendFlags(rapid.IntRange(0, 15).Draw(t, "flags")), Imm: rapid.Uint32().Draw(t, "imm"),
		InvalidateKey: verbs.RKey(rapid.Uint32().Draw(t, "invalidate")), RemoteAddr: rapid.Uint64().Draw(t, "addr"),
		RKey: verbs.RKey(rapid.Uint32().Draw(t, "rkey")), CompareAdd: rapid.Uint64().Draw(t, "compare"), Swap: rapid.Uint64().Draw(t, "swap"),
		RemoteQPN: verbs.QPN(rapid.Uint32().Draw(t, "qpn")), RemoteQKey: verbs.QKey(rapid.Uint32().Draw(t, "qkey")),
	}
	if rapid.Bool().Draw(t, "aligned") {
		r.wr.RemoteAddr &^= 7
	}
	r.wr.Inline = rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 24), 0, 3).Draw(t, "inline")
	for range rapid.IntRange(0, 4).Draw(t, "pieces") {
		r.wr.SGList = append(r.wr.SGList, verbs.SGE{Addr: rapid.Uint64().Draw(t, "at"), LKey: verbs.LKey(rapid.Uint32().Draw(t, "lkey")),
			Length: rapid.SampledFrom([]uint32{0, 1, 8, 8, 8, 1 << 30, 1 << 31, 1<<32 - 1}).Draw(t, "length")})
	}
	return r
}

// forDevice adds the objects of the poster's device to a request.
func (p *poster) forDevice(r request) verbs.SendWR {
	wr := r.wr
	if r.bind {
		wr.Bind = &verbs.MWBind{MW: p.mw, MR: p.mr, Addr: p.mr.Addr(), Length: 100}
	}
	if r.to {
		wr.AH = p.ah
	}
	return wr
}

// put posts a request with the methods of a Post, as PostSend does. The request has no fields that
// its operation does not use.
func put(p *verbs.Post, typ verbs.QPType, wr *verbs.SendWR) {
	switch id, flags, addr, key := wr.ID, wr.Flags, wr.RemoteAddr, wr.RKey; wr.Opcode {
	case verbs.WRSend:
		p.Send(id, flags)
	case verbs.WRSendWithImm:
		p.SendImm(id, flags, wr.Imm)
	case verbs.WRSendWithInv:
		p.SendInv(id, flags, wr.InvalidateKey)
	case verbs.WRRDMAWrite:
		p.Write(id, flags, addr, key)
	case verbs.WRRDMAWriteWithImm:
		p.WriteImm(id, flags, addr, key, wr.Imm)
	case verbs.WRRDMARead:
		p.Read(id, flags, addr, key)
	case verbs.WRAtomicCmpAndSwp:
		p.CompareSwap(id, flags, addr, key, wr.CompareAdd, wr.Swap)
	case verbs.WRAtomicFetchAndAdd:
		p.FetchAdd(id, flags, addr, key, wr.CompareAdd)
	case verbs.WRLocalInv:
		p.LocalInv(id, flags, wr.InvalidateKey)
		return
	case verbs.WRBindMW:
		var b verbs.MWBind
		if wr.Bind != nil {
			b = *wr.Bind
		}
		p.BindMW(id, flags, b)
		return
	}
	if typ == verbs.UD {
		p.To(wr.AH, wr.RemoteQPN, wr.RemoteQKey)
	}
	if wr.Flags&verbs.SendInline != 0 {
		switch wr.Opcode {
		case verbs.WRRDMARead, verbs.WRAtomicCmpAndSwp, verbs.WRAtomicFetchAndAdd:
			p.Inline([]byte{1}) // for PostSend the flag alone is invalid
		}
		for _, b := range wr.Inline {
			p.Inline(b)
		}
		return
	}
	for _, s := range wr.SGList {
		p.SGE(s)
	}
}

// TestPostSendIsPost checks that PostSend and Post write the same bytes into the queue, and return
// the same errors.
func TestPostSendIsPost(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			buf := make([]byte, 4096)
			rapid.Check(t, func(rt *rapid.T) {
				one, two := newPoster(t, typ, buf), newPoster(t, typ, buf)
				defer one.close(t)
				defer two.close(t)
				var wrs, others []verbs.SendWR
				for range rapid.IntRange(0, 9).Draw(rt, "requests") {
					r := drawRequest(rt)
					wrs, others = append(wrs, one.forDevice(r)), append(others, two.forDevice(r))
				}
				n, err := one.qp.PostSend(wrs)
				p := two.qp.Begin()
				for i := range others {
					put(p, typ, &others[i])
				}
				k, other := p.Ring()
				if n != k || (err == nil) != (other == nil) { // of two errors either may be reported
					rt.Fatalf("PostSend: %d, %v; Post: %d, %v", n, err, k, other)
				}
				if err == nil && n != len(wrs) || one.dev.rung != two.dev.rung || one.dev.rung > 1 {
					rt.Fatalf("%d of %d, bells: %d and %d", n, len(wrs), one.dev.rung, two.dev.rung)
				}
				for i := range n {
					if a, b := one.dev.slot(i), two.dev.slot(i); !bytes.Equal(a, b) {
						rt.Fatalf("request %d, %v:\n%x\n%x", i, wrs[i].Opcode, a, b)
					}
				}
			})
		})
	}
}
