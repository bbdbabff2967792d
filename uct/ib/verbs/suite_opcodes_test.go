//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// long reports whether tests may take longer.
var long = os.Getenv("RXE_LONG") != ""

// often returns the number of rounds of a test.
func (r *rig) often(fake, device, longer int) int {
	switch {
	case r.kernel != nil && !r.behind:
		return fake
	case long:
		return longer
	}
	return device
}

// edges returns sizes close to multiples of the packet size, up to 8 MiB; on devices of the kernel
// up to 1 MiB, except in a long run.
func (r *rig) edges() []int {
	mtu := r.mtu.Bytes()
	sizes := []int{0, 1, 2, 3, 7, 8, 255, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1, 3*mtu + 5, 64<<10 + 3, 1 << 20}
	if r.kernel != nil || long {
		sizes = append(sizes, 8<<20-1, 8<<20)
	}
	if long {
		for n := 10 * mtu; n < 8<<20; n = n*3/2 + 1 {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// testSizes does every operation with messages of many sizes, in both directions.
func testSizes(t *testing.T, r *rig) {
	const most = 8 << 20
	const slack = 64 // bytes that must stay unchanged
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		a, b := r.pair(t, typ)
		var mrs [2]*verbs.MR
		for i, s := range []*side{a, b} {
			mrs[i] = must(s.pd.RegMR(make([]byte, 2*(most+slack)), fullAccess))(t)
		}
		ops := []verbs.WROpcode{verbs.WRSend, verbs.WRSendWithImm, verbs.WRRDMAWrite, verbs.WRRDMAWriteWithImm, verbs.WRRDMARead}
		if typ == verbs.UC {
			ops = ops[:4]
		}
		for _, n := range r.edges() {
			if typ == verbs.UC && n > 64<<10 {
				continue // without flow control packets are lost
			}
			for i, op := range ops {
				for _, swap := range []bool{false, true} {
					from, to, src, dst := a, b, mrs[0], mrs[1]
					if swap {
						from, to, src, dst = b, a, mrs[1], mrs[0]
					}
					name := fmt.Sprintf("%v %v of %d bytes, %v", typ, op, n, swap)
					// The data is at the end of the first half of src; it goes
					// to the beginning of the second half of dst.
					out, in := src.Bytes()[most-n:most], dst.Bytes()[most+slack:][:n+slack]
					start := byte(n + 3*i)
					wr := verbs.SendWR{ID: uint64(n), Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{src.SGE(most-n, n)},
						RemoteAddr: dst.Addr() + most + slack, RKey: dst.RKey(), Imm: uint32(n) ^ 0xdead0000}
					if op == verbs.WRRDMARead {
						// A read goes the other way: src reads the data of
						// dst.
						out, in = dst.Bytes()[most-n:most], src.Bytes()[most+slack:][:n+slack]
						wr.SGList, wr.RemoteAddr = []verbs.SGE{src.SGE(most+slack, n)}, dst.Addr()+uint64(most-n)
					}
					fill(out, start)
					for k := range in {
						in[k] = 0xee
					}
					recv := verbs.WCOpcode(0)
					switch op {
					case verbs.WRSend, verbs.WRSendWithImm:
						to.recv(t, verbs.RecvWR{ID: 5, SGList: []verbs.SGE{dst.SGE(most+slack, n)}})
						recv = verbs.WCRecv
					case verbs.WRRDMAWriteWithImm:
						to.recv(t, verbs.RecvWR{ID: 5})
						recv = verbs.WCRecvRDMAWithImm
					}
					from.send(t, wr)
					from.done(t, wr.ID, [...]verbs.WCOpcode{verbs.WCRDMAWrite, verbs.WCRDMAWrite, verbs.WCSend, verbs.WCSend, verbs.WCRDMARead}[op])
					if recv != 0 {
						wc := to.done(t, 5, recv)
						imm := wc.Flags&verbs.WCWithImm != 0
						if int(wc.ByteLen) != n || imm != (op != verbs.WRSend) || imm && wc.Imm != wr.Imm {
							t.Errorf("%s: %+v", name, wc)
						}
					} else if typ == verbs.UC {
						// A write gives the receiver no completion. A send
						// after it does.
						to.recv(t, verbs.RecvWR{ID: 6})
						from.send(t, verbs.SendWR{ID: 6, Opcode: verbs.WRSend, Flags: verbs.SendSignaled})
						from.done(t, 6, verbs.WCSend)
						to.done(t, 6, verbs.WCRecv)
					}
					if !bytes.Equal(in[:n], out) {
						t.Errorf("%s: wrong bytes", name)
					}
					if !bytes.Equal(in[n:], bytes.Repeat([]byte{0xee}, slack)) {
						t.Errorf("%s: bytes behind it were written", name)
					}
				}
			}
		}
		if typ == verbs.RC {
			bothWays(t, a, b)
		}
		check(t, a.ctx.Close())
		check(t, b.ctx.Close())
	}
}

// bothWays makes both ends do all operations at once.
func bothWays(t *testing.T, a, b *side) {
	t.Helper()
	const each = 7
	sides := []*side{a, b}
	for round := range 20 {
		for i, s := range sides {
			fill(s.buf[:5000], byte(round+i))
			binary.NativeEndian.PutUint64(s.buf[60000:], uint64(round))
			s.recv(t, verbs.RecvWR{ID: 100, SGList: s.at(6000, 5000)}, verbs.RecvWR{ID: 100})
		}
		for i, s := range sides {
			peer := sides[1-i]
			to := func(op verbs.WROpcode, off, n, remote int) verbs.SendWR {
				return verbs.SendWR{ID: uint64(op), Opcode: op, Flags: verbs.SendSignaled, SGList: s.at(off, n),
					RemoteAddr: peer.mr.Addr() + uint64(remote), RKey: peer.mr.RKey(), CompareAdd: uint64(round), Swap: 1000}
			}
			s.send(t, to(verbs.WRSend, 0, 5000, 0), to(verbs.WRRDMAWrite, 0, 5000, 12000), to(verbs.WRRDMARead, 18000, 5000, 12000),
				to(verbs.WRAtomicCmpAndSwp, 61000, 8, 60000), to(verbs.WRRDMAWriteWithImm, 0, 3000, 24000),
				to(verbs.WRAtomicFetchAndAdd, 61008, 8, 60000), to(verbs.WRRDMARead, 30000, 3000, 24000))
		}
		for _, s := range sides {
			for _, wc := range s.poll(t, each+2) {
				if wc.Status != verbs.WCSuccess {
					t.Fatalf("%+v (%v)", wc, wc.Status)
				}
			}
			old, newer := binary.NativeEndian.Uint64(s.buf[61000:]), binary.NativeEndian.Uint64(s.buf[61008:])
			if old != uint64(round) || newer != 1000 {
				t.Errorf("round %d: atomics found %d and %d", round, old, newer)
			}
			for _, back := range []struct{ off, n int }{{18000, 5000}, {30000, 3000}} {
				if !bytes.Equal(s.buf[back.off:back.off+back.n], s.buf[:back.n]) {
					t.Errorf("round %d: what was written is not what was read", round)
				}
			}
		}
		for i, s := range sides {
			if !bytes.Equal(s.buf[6000:11000], sides[1-i].buf[:5000]) || !bytes.Equal(s.buf[24000:27000], sides[1-i].buf[:3000]) {
				t.Errorf("round %d: wrong bytes", round)
			}
			if v := binary.NativeEndian.Uint64(s.buf[60000:]); v != 1000+uint64(round) {
				t.Errorf("round %d: the word is %d", round, v)
			}
		}
	}
}

// testDatagrams sends datagrams of many sizes up to the MTU, in both directions.
func testDatagrams(t *testing.T, r *rig) {
	a, b := r.newSide(t, verbs.UD), r.other().newSide(t, verbs.UD)
	a.up(t, nil)
	b.up(t, nil)
	mtu := r.mtu.Bytes()
	for _, way := range []struct{ from, to *side }{{a, b}, {b, a}} {
		path := way.from.r.to(way.to.r)
		ah := must(way.from.pd.CreateAH(&path))(t)
		for _, n := range []int{0, 1, 3, 8, 255, 256, mtu / 2, mtu - 1, mtu} {
			for _, op := range []verbs.WROpcode{verbs.WRSend, verbs.WRSendWithImm} {
				const off = 20000
				fill(way.from.buf[:n], byte(n))
				clear(way.to.buf[off : off+n+verbs.GRHLength+1])
				way.to.recv(t, verbs.RecvWR{ID: 1, SGList: way.to.at(off, n+verbs.GRHLength)})
				way.from.send(t, verbs.SendWR{ID: 2, Opcode: op, Imm: 5, Flags: verbs.SendSignaled, SGList: way.from.at(0, n),
					AH: ah, RemoteQPN: way.to.qp.QPN(), RemoteQKey: qkey})
				way.from.done(t, 2, verbs.WCSend)
				wc := way.to.done(t, 1, verbs.WCRecv)
				data := way.to.buf[off+verbs.GRHLength:]
				if int(wc.ByteLen) != n+verbs.GRHLength || wc.SrcQPN != way.from.qp.QPN() || !bytes.Equal(data[:n], way.from.buf[:n]) || data[n] != 0 {
					t.Errorf("%v of %d bytes: %+v, or wrong bytes", op, n, wc)
				}
			}
		}
		check(t, ah.Close())
	}
}

// testInlineSizes sends inline data of every size that a queue pair accepts.
func testInlineSizes(t *testing.T, r *rig) {
	// The largest size: rdma_rxe has as much room as for scatter/gather elements.
	want := 16 * must(r.open(t).QueryDevice())(t).MaxSGE
	a, b := r.newSide(t, verbs.RC, func(a *verbs.QPInitAttr) { a.Cap.MaxInline = want }), r.other().newSide(t, verbs.RC)
	a.up(t, b)
	b.up(t, a)
	most := a.qp.Cap().MaxInline
	if most < want {
		t.Errorf("%d bytes inline of %d", most, want)
	}
	data, none := make([]byte, most), make([]byte, most+1)
	for n := 0; n <= most; n++ {
		fill(data[:n], byte(n))
		clear(b.buf[:2*(most+1)])
		cut := n / 3
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, most+1)})
		a.send(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendInline, Inline: [][]byte{data[:cut], data[cut:n]},
			RemoteAddr: b.mr.Addr() + uint64(most+1), RKey: b.mr.RKey()},
			verbs.SendWR{ID: 3, Opcode: verbs.WRSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: [][]byte{data[:n]}})
		fill(data[:n], byte(n+1)) // the caller may reuse it at once
		a.done(t, 3, verbs.WCSend)
		wc := b.done(t, 1, verbs.WCRecv)
		fill(data[:n], byte(n))
		for i, got := range [][]byte{b.buf[:most+1], b.buf[most+1 : 2*(most+1)]} {
			if int(wc.ByteLen) != n || !bytes.Equal(got[:n], data[:n]) || !bytes.Equal(got[n:], none[n:]) {
				t.Fatalf("%d bytes, %d: %+v, or wrong bytes", n, i, wc)
			}
		}
	}
}

// testGatherMost uses as many scatter/gather elements as the device accepts, of all sizes, for
// every operation that has them.
func testGatherMost(t *testing.T, r *rig) {
	most := must(r.open(t).QueryDevice())(t).MaxSGE
	wide := func(a *verbs.QPInitAttr) { a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE, a.Cap.MaxInline = most, most, 0 }
	a, b := r.newSide(t, verbs.RC, wide), r.other().newSide(t, verbs.RC, wide)
	a.up(t, b)
	b.up(t, a)
	if c := a.qp.Cap(); c.MaxSendSGE < most || c.MaxRecvSGE < most {
		t.Fatalf("%+v of %d", c, most)
	}
	for round, pieces := range []int{1, 2, 3, most / 2, most - 1, most} {
		fill(a.buf[:32000], byte(round))
		clear(b.buf)
		list := func(s *side, base, gap int) (sges []verbs.SGE, at func() []byte, total int) {
			var parts [][]byte
			off := base
			for i := range pieces {
				n := (i*i*7 + i*gap) % 900 // some are 0
				sges = append(sges, s.mr.SGE(off, n))
				parts = append(parts, s.buf[off:off+n])
				off += n + gap
				total += n
			}
			return sges, func() []byte { return bytes.Join(parts, nil) }, total
		}
		src, sent, total := list(a, 0, 3)
		dst, received, _ := list(b, 0, 5)
		room := 0
		for _, s := range dst {
			room += int(s.Length)
		}
		if room < total { // the rest goes into the last element
			dst[len(dst)-1].Length += uint32(total - room)
		}
		b.recv(t, verbs.RecvWR{ID: 1, SGList: dst})
		a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: src})
		a.done(t, 2, verbs.WCSend)
		wc := b.done(t, 1, verbs.WCRecv)
		got, want := received(), sent()
		if n := min(len(got), total); int(wc.ByteLen) != total || !bytes.Equal(got[:n], want[:n]) {
			t.Errorf("%d pieces sent: %+v, or wrong bytes", pieces, wc)
		}
		wr := verbs.SendWR{ID: 3, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: src, RemoteAddr: b.mr.Addr() + 33333, RKey: b.mr.RKey()}
		a.send(t, wr)
		a.done(t, 3, verbs.WCRDMAWrite)
		if !bytes.Equal(b.buf[33333:33333+total], want) || b.buf[33333+total] != 0 {
			t.Errorf("%d pieces written: wrong bytes", pieces)
		}
		into, read, n := list(a, 33000, 7)
		wr.ID, wr.Opcode, wr.SGList, wr.RemoteAddr = 4, verbs.WRRDMARead, into, b.mr.Addr()+100
		fill(b.buf[100:100+n], byte(round+9))
		a.send(t, wr)
		a.done(t, 4, verbs.WCRDMARead)
		if !bytes.Equal(read(), b.buf[100:100+n]) {
			t.Errorf("%d pieces read: wrong bytes", pieces)
		}
	}
}
