//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/cmd/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
)

// The loops of the UCT tests (lib/uct_tests.cc). Every message carries a
// sequence number of 8 bits, which is all that a receiver looks at: that of the
// last active message, or a byte of the memory that puts and atomics write to.
// Who only reads leaves a number for the other side to read in turn.

// unknownSN is a sequence number that no first message has.
const unknownSN = 0xff

// sentinel is the number of the operation that ends a stream of puts, gets or
// atomics.
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
		r.c.extra++ // the sentinel, which C counts for active messages too
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

// received is the sequence number of the last message.
func (r *uctRunner) received() uint8 {
	if r.p.Test.Command == perfoob.CmdAM {
		return r.lastSN
	}
	return r.recvBuf[r.recvSN()]
}

// recvSN is where the receive buffer gets a sequence number.
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

// awaitSN progresses until the message with number sn is there.
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

// streamMessages sends numbered active messages. The receiver handles them in
// software, so it is asked to keep up: at most a window of them may lack an
// acknowledgement, which is a message back with the last number received.
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

// receiveMessages counts numbered messages and acknowledges every half window
// of them.
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

// streamWrites writes or updates the same memory again and again, to no effect,
// and to one that is seen at last.
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

// fence orders what comes after what was started.
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

// streamGets reads the same memory again and again. The other side learns of
// the end by reading the sentinel here.
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

// serveGets lets the other side read, and looks there now and then until it has
// left the sentinel.
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

// newer compares sequence numbers around the end of their 8 bits.
func newer(a, b uint8) bool { return int8(a-b) > 0 }
