//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The loops of the one-sided tests (lib/ucp_tests.cc). The last byte of a message is its number. In
// a ping-pong each side puts a message and waits for the number of the other side's message in its
// own memory. In a stream only the client starts operations. At the end it sets the last byte of
// the server's memory; the server waits for that byte, because nothing else tells it that the stage
// is over. Between 1.22 programs the server then does one operation itself.

const (
	unknownNumber = 0xFF // the mark before a ping-pong, which differs from the first numbers
	lastNumber    = 1    // the number of the last message of a stream
)

// ucpFeatures returns the features of the context for a test.
func ucpFeatures(p *params) ucp.Features {
	switch c := p.Test.Command; {
	case isAtomic(c) && p.MessageSize() == 4:
		return ucp.FeatureAMO32
	case isAtomic(c):
		return ucp.FeatureAMO64
	case isOneSided(c):
		return ucp.FeatureRMA
	case c == perfoob.CmdAM:
		return ucp.FeatureAM
	case c == perfoob.CmdStream:
		return ucp.FeatureStream
	}
	return ucp.FeatureTag
}

// checkOneSided checks whether a one-sided test can run.
func checkOneSided(p *params) error {
	n := p.MessageSize()
	switch {
	case isAtomic(p.Test.Command) && n != 4 && n != 8:
		return fmt.Errorf("message of %d bytes in test %s, need 4 or 8: %w", n, p.Test.Name, ucs.ErrInvalidParam)
	case n < 1:
		return fmt.Errorf("message of 0 bytes in test %s: %w", p.Test.Name, ucs.ErrInvalidParam)
	case p.SendType == perfoob.IOV || p.RecvType == perfoob.IOV:
		return fmt.Errorf("scattered memory in test %s: %w", p.Test.Name, errLeftOut)
	}
	return nil
}

// openKey unpacks the key of the other side's memory in a one-sided test.
func (r *ucpRunner) openKey(peer *perfoob.UCPInfo) (err error) {
	if !r.rma.on {
		return nil
	}
	r.rma.remote = peer.RecvBuffer
	r.rma.key, err = r.ep.UnpackRkey(peer.Rkey)
	return err
}

// closeKey releases the key of the other side's memory.
func (r *ucpRunner) closeKey() error {
	if r.rma.key == nil {
		return nil
	}
	err := r.rma.key.Close()
	r.rma.key = nil
	return err
}

// resetMemory prepares both buffers for a stage.
func (r *ucpRunner) resetMemory() {
	if !r.rma.on {
		return
	}
	r.rma.number = 0
	mark := byte(0)
	if r.p.Test.Type == perfoob.PingPong {
		mark = unknownNumber
	}
	n := len(r.sendBuf)
	r.sendBuf[n-1], r.recvBuf[n-1] = mark, mark
}

// oneSidedTraffic is the counterpart of the method traffic for the one-sided tests.
func (r *ucpRunner) oneSidedTraffic() error {
	switch {
	case r.p.Test.Type == perfoob.PingPong:
		return r.putPingPong(r.g.index() == 0)
	case r.g.loopback():
		return r.accesses(r.progressOnce)
	case r.g.index() == 0:
		return r.serveAccesses()
	}
	if err := r.accesses(nil); err != nil {
		return err
	}
	return r.lastAccess()
}

// putPingPong puts numbered messages alternately with the other side.
func (r *ucpRunner) putPingPong(first bool) error {
	for !r.c.done() {
		if first {
			if err := r.putNumber(); err != nil {
				return err
			}
		}
		if err := r.awaitNumber(r.rma.number); err != nil {
			return err
		}
		if !first {
			if err := r.putNumber(); err != nil {
				return err
			}
		}
		r.rma.number++
		r.c.update()
	}
	return r.drain()
}

func (r *ucpRunner) putNumber() error {
	if err := r.awaitRoom(&r.sends); err != nil {
		return err
	}
	r.sendBuf[len(r.sendBuf)-1] = r.rma.number
	return r.accessStarted(r.ep.Put(r.sendBuf, r.rma.remote, r.rma.key, r.sendParams))
}

// awaitNumber waits until the last byte of this side's memory is n.
func (r *ucpRunner) awaitNumber(n byte) error {
	last := &r.recvBuf[len(r.recvBuf)-1]
	for *last != n {
		if err := r.serve(); err != nil {
			return err
		}
	}
	r.idle = 0 // progress does not count accesses by the other side
	return nil
}

// accesses repeats the operation of the test until the stage is over.
func (r *ucpRunner) accesses(between func() error) error {
	for !r.c.done() {
		if err := r.awaitRoom(&r.sends); err != nil {
			return err
		}
		if err := r.access(len(r.sendBuf)); err != nil {
			return err
		}
		if between != nil {
			if err := between(); err != nil {
				return err
			}
		}
		r.c.update()
	}
	return r.drain()
}

// noChange is the operand of the atomic operations.
var noChange = make([]byte, 8)

// access starts an operation on n bytes.
func (r *ucpRunner) access(n int) error {
	buf, key := r.sendBuf[:n], r.rma.key
	switch r.cmd {
	case perfoob.CmdPut:
		return r.accessStarted(r.ep.Put(buf, r.rma.remote, key, r.sendParams))
	case perfoob.CmdGet:
		return r.accessStarted(r.ep.Get(buf, r.rma.remote, key, r.sendParams))
	}
	return r.accessStarted(r.ep.Atomic(atomicOpOf(r.cmd), noChange[:len(r.sendBuf)], r.rma.remote, key, r.sendParams))
}

func atomicOpOf(c perfoob.Command) ucp.AtomicOp {
	switch c {
	case perfoob.CmdSwap:
		return ucp.AtomicSwap
	case perfoob.CmdCSwap:
		return ucp.AtomicCompareSwap
	}
	return ucp.AtomicAdd
}

// accessStarted records an operation that has not completed in its call.
func (r *ucpRunner) accessStarted(req *ucp.Request, err error) error {
	if req != nil {
		r.started(req)
	}
	return err
}

func (r *ucpRunner) progressOnce() error {
	r.w.Progress()
	return nil
}

// serveAccesses progresses until the client has set the last byte, which a 1.13.1 client does not
// do after gets.
func (r *ucpRunner) serveAccesses() error {
	for !r.c.done() {
		if !r.passive {
			r.w.Progress()
		}
		r.c.update()
	}
	if r.marksEnd() {
		if err := r.awaitNumber(lastNumber); err != nil {
			return err
		}
	}
	if !r.g.release().StreamAck() {
		return nil
	}
	n := 1
	if isAtomic(r.cmd) {
		n = len(r.sendBuf)
	}
	if err := r.access(n); err != nil {
		return err
	}
	return r.drain()
}

// marksEnd reports whether the client sets the last byte at the end.
func (r *ucpRunner) marksEnd() bool {
	return r.cmd != perfoob.CmdGet || r.g.release().StreamAck()
}

// lastAccess sets the last byte of the server's memory.
func (r *ucpRunner) lastAccess() error {
	if !r.marksEnd() {
		return nil
	}
	if err := r.w.Fence(); err != nil {
		return err
	}
	n := len(r.sendBuf)
	mark := make([]byte, n)
	mark[n-1] = lastNumber
	p := new(ucp.RequestParams)
	var err error
	switch r.cmd {
	case perfoob.CmdPut:
		r.sendBuf[n-1] = lastNumber
		err = r.accessStarted(r.ep.Put(r.sendBuf, r.rma.remote, r.rma.key, p))
	case perfoob.CmdGet:
		err = r.accessStarted(r.ep.Put(mark[n-1:], r.rma.remote+uint64(n-1), r.rma.key, p))
	case perfoob.CmdCSwap:
		p.ReplyBuffer = mark // the new value
		err = r.accessStarted(r.ep.Atomic(ucp.AtomicCompareSwap, noChange[:n], r.rma.remote, r.rma.key, p))
	default:
		if r.cmd != perfoob.CmdAdd {
			p.ReplyBuffer = r.sendBuf
		}
		err = r.accessStarted(r.ep.Atomic(atomicOpOf(r.cmd), mark, r.rma.remote, r.rma.key, p))
	}
	if err != nil {
		return err
	}
	return r.drain()
}
