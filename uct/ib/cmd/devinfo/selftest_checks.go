//go:build linux

package main

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

func checkSend(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	for i, n := range []int{0, 1, 700, k.mtu.Bytes(), endBytes} {
		fill(a.buf[:n], i)
		clear(b.buf)
		id := uint64(i)
		if err := b.recv(verbs.RecvWR{ID: id, SGList: b.at(0, endBytes)}); err != nil {
			return err
		}
		if err := a.transfer(verbs.WCSend, verbs.SendWR{ID: id, Opcode: verbs.WRSendWithImm, Imm: 0x01020304, SGList: a.at(0, n)}); err != nil {
			return err
		}
		wc, err := b.done(id, verbs.WCRecv)
		if err != nil {
			return err
		}
		if int(wc.ByteLen) != n || wc.Imm != 0x01020304 || wc.Flags&verbs.WCWithImm == 0 {
			return fmt.Errorf("%d bytes: received as %+v", n, wc)
		}
		if err := same("received", b.buf[:n], a.buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

func checkGather(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	data := make([]byte, a.qp.Cap().MaxInline)
	fill(data, 3)
	if err := b.recv(verbs.RecvWR{ID: 1, SGList: b.at(0, len(data))}); err != nil {
		return err
	}
	if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendInline, Inline: [][]byte{data[:10], data[10:]}}); err != nil {
		return err
	}
	if _, err := b.done(1, verbs.WCRecv); err != nil {
		return err
	}
	if err := same("sent inline", b.buf[:len(data)], data); err != nil {
		return err
	}
	fill(a.buf, 5)
	if err := b.recv(verbs.RecvWR{ID: 2, SGList: []verbs.SGE{b.mr.SGE(0, 10), b.mr.SGE(100, 5000), b.mr.SGE(6000, 1000)}}); err != nil {
		return err
	}
	if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{a.mr.SGE(500, 1), a.mr.SGE(1000, 5500), a.mr.SGE(9000, 99)}}); err != nil {
		return err
	}
	if _, err := b.done(2, verbs.WCRecv); err != nil {
		return err
	}
	got := append(append(append([]byte(nil), b.buf[:10]...), b.buf[100:5100]...), b.buf[6000:6590]...)
	want := append(append(append([]byte(nil), a.buf[500]), a.buf[1000:6500]...), a.buf[9000:9099]...)
	return same("gathered and scattered", got, want)
}

// to returns a work request that accesses the memory of the end b at an offset; the gather list sg
// is local memory.
func (e *end) to(op verbs.WROpcode, b *end, off int, sg []verbs.SGE) verbs.SendWR {
	return verbs.SendWR{Opcode: op, SGList: sg, RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey()}
}

func checkRDMA(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	const n = 50001
	fill(a.buf[:n], 7)
	if err := a.transfer(verbs.WCRDMAWrite, a.to(verbs.WRRDMAWrite, b, 3, a.at(0, n))); err != nil {
		return err
	}
	if err := same("written", b.buf[3:3+n], a.buf[:n]); err != nil {
		return err
	}
	if err := b.recv(verbs.RecvWR{ID: 9}); err != nil {
		return err
	}
	w := a.to(verbs.WRRDMAWriteWithImm, b, 0, a.at(100, 50))
	w.Imm = 77
	if err := a.transfer(verbs.WCRDMAWrite, w); err != nil {
		return err
	}
	wc, err := b.done(9, verbs.WCRecvRDMAWithImm)
	if err != nil {
		return err
	}
	if wc.Imm != 77 || wc.ByteLen != 50 {
		return fmt.Errorf("written with immediate data: %+v", wc)
	}
	if err := same("written with immediate data", b.buf[:50], a.buf[100:150]); err != nil {
		return err
	}
	fill(b.buf[:n], 9)
	if err := a.transfer(verbs.WCRDMARead, a.to(verbs.WRRDMARead, b, 0, a.at(70000, n))); err != nil {
		return err
	}
	return same("read", a.buf[70000:70000+n], b.buf[:n])
}

func checkAtomics(k *check) error {
	if k.attr.AtomicCap == 0 {
		return errLacking
	}
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(b.buf[64:], 100)
	for _, c := range []struct {
		op         verbs.WROpcode
		done       verbs.WCOpcode
		value, new uint64
		old, want  uint64
	}{
		{verbs.WRAtomicFetchAndAdd, verbs.WCFetchAdd, 5, 0, 100, 105},
		{verbs.WRAtomicFetchAndAdd, verbs.WCFetchAdd, ^uint64(0), 0, 105, 104},
		{verbs.WRAtomicCmpAndSwp, verbs.WCCompSwap, 104, 1 << 40, 104, 1 << 40},
		{verbs.WRAtomicCmpAndSwp, verbs.WCCompSwap, 104, 10, 1 << 40, 1 << 40},
	} {
		w := a.to(c.op, b, 64, a.at(0, 8))
		w.CompareAdd, w.Swap = c.value, c.new
		if err := a.transfer(c.done, w); err != nil {
			return err
		}
		old, now := binary.NativeEndian.Uint64(a.buf), binary.NativeEndian.Uint64(b.buf[64:])
		if old != c.old || now != c.want {
			return fmt.Errorf("%v(%d, %d): old value %d and new value %d, expected %d and %d", c.op, c.value, c.new, old, now, c.old, c.want)
		}
	}
	return nil
}

// checkBatches sends so many batches of messages that the queues wrap around many times. Each batch
// has one doorbell and one send completion.
func checkBatches(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	const batch, total = 32, 2000 / 32 * 32
	var sends [batch]verbs.SendWR
	var recvs [batch]verbs.RecvWR
	for n := 0; n < total; n += batch {
		for i := range batch {
			recvs[i] = verbs.RecvWR{ID: uint64(n + i), SGList: b.at(8*i, 8)}
			binary.NativeEndian.PutUint64(a.buf[8*i:], uint64(n+i))
			sends[i] = verbs.SendWR{ID: uint64(n + i), Opcode: verbs.WRSend, SGList: a.at(8*i, 8)}
		}
		sends[batch-1].Flags = verbs.SendSignaled
		if err := b.recv(recvs[:]...); err != nil {
			return err
		}
		if err := a.send(sends[:]...); err != nil {
			return err
		}
		if _, err := a.done(uint64(n+batch-1), verbs.WCSend); err != nil {
			return err
		}
		for i := range batch {
			if _, err := b.done(uint64(n+i), verbs.WCRecv); err != nil {
				return err
			}
			if got := binary.NativeEndian.Uint64(b.buf[8*i:]); got != uint64(n+i) {
				return fmt.Errorf("message %d contains %d", n+i, got)
			}
		}
	}
	return nil
}

func checkWindows(k *check) error {
	if k.attr.MaxMW == 0 {
		return errLacking
	}
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	mr, err := b.pd.RegMR(b.buf, verbs.AccessLocalWrite|verbs.AccessMWBind)
	if mr, err = keep(k, mr, err); err != nil {
		return err
	}
	w, err := b.pd.AllocMW()
	if w, err = keep(k, w, err); err != nil {
		return err
	}
	bind := verbs.MWBind{MW: w, MR: mr, Addr: mr.Addr() + 4096, Length: 4096, Access: verbs.AccessRemoteWrite}
	if err := b.transfer(verbs.WCBindMW, verbs.SendWR{Opcode: verbs.WRBindMW, Bind: &bind}); err != nil {
		return err
	}
	fill(a.buf[:4096], 1)
	inside := verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 4096), RemoteAddr: bind.Addr, RKey: w.RKey()}
	if err := a.transfer(verbs.WCRDMAWrite, inside); err != nil {
		return err
	}
	if err := same("written through a window", b.buf[4096:8192], a.buf[:4096]); err != nil {
		return err
	}
	if err := b.transfer(verbs.WCLocalInv, verbs.SendWR{Opcode: verbs.WRLocalInv, InvalidateKey: w.RKey()}); err != nil {
		return err
	}
	inside.Flags = verbs.SendSignaled
	if err := a.send(inside); err != nil {
		return err
	}
	return a.failed(verbs.WCRemAccessErr)
}

func checkUC(k *check) error {
	a, b, err := k.pair(verbs.UC)
	if err != nil {
		return err
	}
	fill(a.buf[:10000], 2)
	if err := b.recv(verbs.RecvWR{ID: 1, SGList: b.at(0, 20000)}); err != nil {
		return err
	}
	if err := a.transfer(verbs.WCSend, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, SGList: a.at(0, 10000)}); err != nil {
		return err
	}
	if _, err := b.done(1, verbs.WCRecv); err != nil {
		return err
	}
	if err := same("received", b.buf[:10000], a.buf[:10000]); err != nil {
		return err
	}
	if err := b.recv(verbs.RecvWR{ID: 3}); err != nil {
		return err
	}
	w := a.to(verbs.WRRDMAWriteWithImm, b, 30000, a.at(0, 5000))
	if err := a.transfer(verbs.WCRDMAWrite, w); err != nil {
		return err
	}
	if _, err := b.done(3, verbs.WCRecvRDMAWithImm); err != nil {
		return err
	}
	return same("written", b.buf[30000:35000], a.buf[:5000])
}

func checkUD(k *check) error {
	a, b, err := k.pair(verbs.UD)
	if err != nil {
		return err
	}
	path := k.path()
	ah, err := a.pd.CreateAH(&path)
	if ah, err = keep(k, ah, err); err != nil {
		return err
	}
	for _, n := range []int{0, 1, k.mtu.Bytes()} {
		fill(a.buf[:n], n)
		if err := b.recv(verbs.RecvWR{ID: 1, SGList: b.at(0, 8192)}); err != nil {
			return err
		}
		if err := a.transfer(verbs.WCSend, verbs.SendWR{ID: 2, Opcode: verbs.WRSendWithImm, Imm: 5, SGList: a.at(0, n),
			AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: endQKey}); err != nil {
			return err
		}
		wc, err := b.done(1, verbs.WCRecv)
		if err != nil {
			return err
		}
		if int(wc.ByteLen) != n+verbs.GRHLength || wc.SrcQPN != a.qp.QPN() || wc.Imm != 5 {
			return fmt.Errorf("%d bytes from queue pair %#x: received as %+v", n, a.qp.QPN(), wc)
		}
		if err := same("received", b.buf[verbs.GRHLength:verbs.GRHLength+n], a.buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

func checkSRQ(k *check) error {
	if k.attr.MaxSRQ == 0 {
		return errLacking
	}
	var srq *verbs.SRQ
	shared := func(e *end, a *verbs.QPInitAttr) (err error) {
		srq, err = e.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 1})
		srq, err = keep(k, srq, err)
		a.SRQ = srq
		return err
	}
	a, err := k.newEnd(verbs.RC)
	if err != nil {
		return err
	}
	b, err := k.newEnd(verbs.RC, shared)
	if err != nil {
		return err
	}
	if err := a.connect(b); err != nil {
		return err
	}
	if err := b.connect(a); err != nil {
		return err
	}
	const n = 10
	for i := range n {
		if _, err := srq.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGList: b.at(1000*i, 1000)}}); err != nil {
			return err
		}
	}
	if err := srq.SetLimit(n - 2); err != nil {
		return err
	}
	for i := range n {
		fill(a.buf[:1000], i)
		if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 1000)}); err != nil {
			return err
		}
		if _, err := b.done(uint64(i), verbs.WCRecv); err != nil {
			return err
		}
		if err := same("received", b.buf[1000*i:1000*(i+1)], a.buf[:1000]); err != nil {
			return err
		}
	}
	for {
		e, err := k.c.GetAsyncEvent(k.ctx)
		if err != nil {
			return fmt.Errorf("no SRQ limit event: %w", err)
		}
		if e.Type == verbs.EventSRQLimitReached && e.SRQ == srq {
			return nil
		}
	}
}
