//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/uct"
)

// The operations on the peer's memory, which is its receive buffer (send in
// lib/uct_tests.cc).

func (r *uctRunner) preparePut() {
	switch r.p.Layout {
	case perfoob.Short:
		r.post = r.putShort
	case perfoob.Bcopy:
		r.post = r.putBcopy
	case perfoob.Zcopy:
		r.iov = r.list(0)
		r.post = r.putZcopy
		r.windowed = r.p.Test.Type == perfoob.StreamUni
	}
}

func (r *uctRunner) putShort(sn, _ uint8, _ *uct.Completion) error {
	r.sendBuf[r.putSN()] = sn
	return r.rma.PutShort(r.sendBuf[:r.length], r.raddr, r.rkey)
}

func (r *uctRunner) putBcopy(sn, _ uint8, _ *uct.Completion) error {
	r.sendBuf[r.putSN()] = sn
	_, err := r.rma.PutBcopy(r, r.length, r.raddr, r.rkey)
	return err
}

func (r *uctRunner) putZcopy(sn, _ uint8, c *uct.Completion) error {
	r.sendBuf[r.putSN()] = sn
	return r.rma.PutZcopy(r.iov, r.raddr, r.rkey, c)
}

// putSN returns the offset of a put's sequence number: in a ping-pong the byte that the receiver
// polls, which is written last; in a stream the first byte.
func (r *uctRunner) putSN() int {
	if r.p.Test.Type == perfoob.PingPong {
		return r.snAt
	}
	return 0
}

func (r *uctRunner) prepareGet() {
	r.windowed = true
	switch r.p.Layout {
	case perfoob.Bcopy:
		r.post = r.getBcopy
	case perfoob.Zcopy:
		r.iov = r.list(0)
		r.post = r.getZcopy
	}
}

func (r *uctRunner) getBcopy(_, _ uint8, c *uct.Completion) error {
	return r.rma.GetBcopy(r, r.length, r.raddr, r.rkey, c)
}

func (r *uctRunner) getZcopy(_, _ uint8, c *uct.Completion) error {
	return r.rma.GetZcopy(r.iov, r.raddr, r.rkey, c)
}

// Unpack implements uct.Unpacker.
func (r *uctRunner) Unpack(src []byte) { copy(r.sendBuf, src) }

// prepareAtomic chooses the operation. The fetched values are ignored.
func (r *uctRunner) prepareAtomic() {
	long := r.length == 8
	switch r.p.Test.Command {
	case perfoob.CmdAdd:
		r.post = r.add32
		if long {
			r.post = r.add64
		}
		return
	case perfoob.CmdFAdd:
		r.post = r.fetchAdd32
		if long {
			r.post = r.fetchAdd64
		}
	case perfoob.CmdSwap:
		r.post = r.swap32
		if long {
			r.post = r.swap64
		}
	case perfoob.CmdCSwap:
		r.post = r.cswap32
		if long {
			r.post = r.cswap64
		}
	}
	r.windowed = true
}

// step returns the amount that changes the sequence number in the peer's memory from prev to sn. At
// the wraparound it is negative, so the rest of the word stays 0.
func step(sn, prev uint8) int { return int(sn) - int(prev) }

func (r *uctRunner) add32(sn, prev uint8, _ *uct.Completion) error {
	return r.amo.Atomic32Post(uct.AtomicAdd, uint32(step(sn, prev)), r.raddr, r.rkey)
}

func (r *uctRunner) add64(sn, prev uint8, _ *uct.Completion) error {
	return r.amo.Atomic64Post(uct.AtomicAdd, uint64(step(sn, prev)), r.raddr, r.rkey)
}

func (r *uctRunner) fetchAdd32(sn, prev uint8, c *uct.Completion) error {
	return r.amo.Atomic32Fetch(uct.AtomicAdd, uint32(step(sn, prev)), &r.old32, r.raddr, r.rkey, c)
}

func (r *uctRunner) fetchAdd64(sn, prev uint8, c *uct.Completion) error {
	return r.amo.Atomic64Fetch(uct.AtomicAdd, uint64(step(sn, prev)), &r.old64, r.raddr, r.rkey, c)
}

func (r *uctRunner) swap32(sn, _ uint8, c *uct.Completion) error {
	return r.amo.Atomic32Fetch(uct.AtomicSwap, uint32(sn), &r.old32, r.raddr, r.rkey, c)
}

func (r *uctRunner) swap64(sn, _ uint8, c *uct.Completion) error {
	return r.amo.Atomic64Fetch(uct.AtomicSwap, uint64(sn), &r.old64, r.raddr, r.rkey, c)
}

func (r *uctRunner) cswap32(sn, prev uint8, c *uct.Completion) error {
	return r.amo.AtomicCSwap32(uint32(prev), uint32(sn), r.raddr, r.rkey, &r.old32, c)
}

func (r *uctRunner) cswap64(sn, prev uint8, c *uct.Completion) error {
	return r.amo.AtomicCSwap64(uint64(prev), uint64(sn), r.raddr, r.rkey, &r.old64, c)
}
