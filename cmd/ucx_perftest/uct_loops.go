//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
)

// The loops of the UCT tests (lib/uct_tests.cc). Every message carries an 8-bit sequence number,
// which is all that a receiver checks: that of the last active message, or a byte of the memory
// that puts and atomics write to. At the end of a stream of gets, the client writes a number to its
// own memory, where the server reads it.

// unknownSN is a sequence number that differs from that of the first messages.
const unknownSN = 0xff

// sentinel is the sequence number of the operation that ends a stream of puts, gets or atomics.
const sentinel = 2

// stage implements runner.
func (r *uctRunner) stage() error {
	pingPong := r.p.Test.Type == perfoob.PingPong
	if pingPong {
		r.setReceived(unknownSN)
	} else {
		clear(r.sendBuf)
		clear(r.recvBuf)
		r.lastSN = 0
	}
	if err := r.g.barrier(r.poll); err != nil {
		return err
	}
	r.c.begin()
	if err := r.traffic(pingPong); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if r.err != nil {
		return r.err
	}
	r.c.stop()
	if !pingPong && r.g.index() == 1 {
		r.c.extra++ // the sentinel, which C also counts for active messages
	}
	return nil
}

func (r *uctRunner) traffic(pingPong bool) error {
	am := r.p.Test.Command == perfoob.CmdAM
	get := r.p.Test.Command == perfoob.CmdGet
	sends := r.g.loopback() || r.g.index() == 1
	switch {
	case pingPong && r.g.index() == 0:
		return r.ping()
	case pingPong:
		return r.pong()
	case am && sends:
		return r.streamMessages()
	case am:
		return r.receiveMessages()
	case get && sends:
		return r.streamGets()
	case get:
		return r.serveGets()
	case sends:
		return r.streamWrites()
	}
	return r.awaitSN(sentinel)
}

// received returns the sequence number of the last message.
func (r *uctRunner) received() uint8 {
	if r.p.Test.Command == perfoob.CmdAM {
		return r.lastSN
	}
	return r.recvBuf[r.recvSN()]
}

// recvSN returns the offset in the receive buffer of the sequence number of a put or an atomic.
func (r *uctRunner) recvSN() int {
	if r.p.Test.Command == perfoob.CmdPut && r.p.Test.Type == perfoob.PingPong {
		return r.length - 1
	}
	return 0
}

func (r *uctRunner) setReceived(sn uint8) {
	r.lastSN = sn
	r.recvBuf[r.recvSN()] = sn
}

// awaitSN progresses until the message with number sn has arrived.
func (r *uctRunner) awaitSN(sn uint8) error {
	for {
		if err := r.serve(); err != nil {
			return err
		}
		if r.received() == sn {
			return nil
		}
	}
}

func (r *uctRunner) ping() error {
	for sn := uint8(0); !r.c.done(); sn++ {
		if err := r.sendOne(sn, sn-1); err != nil {
			return err
		}
		r.c.update()
		if err := r.awaitSN(sn); err != nil {
			return err
		}
	}
	return nil
}

func (r *uctRunner) pong() error {
	for sn := uint8(0); !r.c.done(); sn++ {
		if err := r.awaitSN(sn); err != nil {
			return err
		}
		if err := r.sendOne(sn, sn-1); err != nil {
			return err
		}
		r.c.update()
	}
	return nil
}

// streamMessages sends numbered active messages. The receiver handles them in software, so there is
// flow control: at most a window of messages may be unacknowledged. An acknowledgement is a message
// with the last number received.
func (r *uctRunner) streamMessages() error {
	window := uint8(r.p.FCWindow)
	sn := uint8(1)
	for !r.c.done() {
		for newer(sn, r.received()+window) {
			if err := r.advance(); err != nil {
				return err
			}
		}
		if err := r.sendOne(sn, sn-1); err != nil {
			return err
		}
		sn++
		r.c.update()
	}
	for newer(sn-1, r.received()) {
		if err := r.advance(); err != nil {
			return err
		}
	}
	return r.await(0)
}

// receiveMessages counts numbered messages and acknowledges every half window.
func (r *uctRunner) receiveMessages() error {
	half := uint8(r.p.FCWindow / 2)
	acked := uint8(unknownSN)
	for !r.c.done() {
		if err := r.advance(); err != nil {
			return err
		}
		sn := r.received()
		if newer(sn, acked+half) {
			if err := r.sendOne(sn, sn-1); err != nil {
				return err
			}
			acked = sn
		}
		r.c.iters += uint64(sn - uint8(r.c.iters))
	}
	if sn := r.received(); newer(sn, acked) {
		if err := r.sendOne(sn, sn-1); err != nil {
			return err
		}
	}
	return r.await(0)
}

// streamWrites repeats the same write or update, which leaves the sequence number unchanged, and
// ends with the sentinel.
func (r *uctRunner) streamWrites() error {
	for !r.c.done() {
		if err := r.sendOne(0, 0); err != nil {
			return err
		}
		r.c.update()
	}
	if err := r.fence(); err != nil {
		return err
	}
	if err := r.sendOne(sentinel, 0); err != nil {
		return err
	}
	return r.await(0)
}

// fence orders later operations after those that were started before.
func (r *uctRunner) fence() error {
	for {
		err := r.ep.Fence()
		if err != ucs.ErrNoResource {
			return err
		}
		if err := r.advance(); err != nil {
			return err
		}
	}
}

// streamGets repeats the same read. The other side detects the end by reading the sentinel here.
func (r *uctRunner) streamGets() error {
	for !r.c.done() {
		if err := r.sendOne(0, 0); err != nil {
			return err
		}
		r.c.update()
	}
	if err := r.await(0); err != nil {
		return err
	}
	r.recvBuf[0] = sentinel
	return nil
}

// serveGets serves the other side's reads, and reads that side's memory every millisecond until it
// has the sentinel.
func (r *uctRunner) serveGets() error {
	pause := ticks.FromSeconds(1e-3)
	for last := ticks.Now(); r.sendBuf[0] != sentinel; {
		if err := r.serve(); err != nil {
			return err
		}
		if now := ticks.Now(); now-last > pause {
			if err := r.sendOne(0, 0); err != nil {
				return err
			}
			last = now
		}
	}
	return r.await(0)
}

// newer compares 8-bit sequence numbers with wraparound.
func newer(a, b uint8) bool { return int8(a-b) > 0 }
