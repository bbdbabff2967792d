//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
)

// The loops of the tests with messages (lib/ucp_tests.cc). In a ping-pong the server sends first
// and the client replies. In a stream the client sends, with at most a window of messages
// outstanding, and the server receives; between 1.22 programs the server acknowledges the end of
// the stream. ucp_tag.go, ucp_am.go and ucp_stream.go send and receive the messages.

// stage implements runner. The threads of a side start and end together, so that their rates can be
// added.
func (r *ucpRunner) stage() error {
	r.resetMemory()
	r.askInfo()
	if err := r.g.barrier(r.poll); err != nil {
		return err
	}
	r.c.begin()
	if err := r.g.meet(r.poll); err != nil {
		return err
	}
	if err := r.traffic(); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.g.meet(r.poll); err != nil {
		return err
	}
	r.c.stop()
	return r.g.barrier(r.poll)
}

func (r *ucpRunner) traffic() error {
	switch {
	case r.rma.on:
		return r.oneSidedTraffic()
	case r.p.Test.Type == perfoob.PingPong && r.g.index() == 0:
		return r.ping()
	case r.p.Test.Type == perfoob.PingPong:
		return r.pong()
	case r.g.loopback():
		return r.streamToSelf()
	case r.g.index() == 0:
		return r.streamIn()
	}
	return r.streamOut()
}

func (r *ucpRunner) ping() error {
	for !r.c.done() {
		if err := r.sendOne(); err != nil {
			return err
		}
		if err := r.recvOne(); err != nil {
			return err
		}
		if err := r.empty(&r.receives); err != nil {
			return err
		}
		r.c.update()
	}
	return r.drain()
}

func (r *ucpRunner) pong() error {
	for !r.c.done() {
		if err := r.recvOne(); err != nil {
			return err
		}
		if err := r.empty(&r.receives); err != nil {
			return err
		}
		if err := r.sendOne(); err != nil {
			return err
		}
		r.c.update()
	}
	return r.drain()
}

func (r *ucpRunner) streamToSelf() error {
	for !r.c.done() {
		if err := r.sendOne(); err != nil {
			return err
		}
		if err := r.recvOne(); err != nil {
			return err
		}
		r.c.update()
	}
	return r.drain()
}

func (r *ucpRunner) streamIn() error {
	if err := r.recvAll(); err != nil || !r.g.release().StreamAck() {
		return err
	}
	return r.sendAck()
}

// recvAll receives the messages of a stage.
func (r *ucpRunner) recvAll() error {
	if r.cmd == perfoob.CmdAM {
		return r.amRecvAll()
	}
	for !r.c.done() {
		if err := r.recvOne(); err != nil {
			return err
		}
		r.c.update()
	}
	return r.drain()
}

func (r *ucpRunner) streamOut() error {
	for !r.c.done() {
		if err := r.sendOne(); err != nil {
			return err
		}
		r.c.update()
	}
	if err := r.drain(); err != nil || !r.g.release().StreamAck() {
		return err
	}
	return r.recvAck()
}

// sendOne sends a message when the window has room.
func (r *ucpRunner) sendOne() error {
	if r.block {
		return r.sendBlocking()
	}
	if r.sends.full() {
		if err := r.await(r.sends.take()); err != nil {
			return err
		}
	}
	var req *ucp.Request
	var err error
	switch r.cmd {
	case perfoob.CmdTag:
		req, err = r.ep.TagSend(r.tag, r.sendBuf, r.sendParams)
	case perfoob.CmdAM:
		req, err = r.ep.AMSend(ucpAMID, r.am.header, r.sendBuf, r.sendParams)
	case perfoob.CmdStream:
		req, err = r.ep.StreamSend(r.sendBuf, r.sendParams)
	default:
		req, err = r.ep.TagSendSync(r.tag, r.sendBuf, r.sendParams)
	}
	if req != nil {
		r.started(req)
	}
	return err
}

// recvOne receives a message, or posts the receive of a tagged message when the window has room.
func (r *ucpRunner) recvOne() error {
	switch {
	case r.cmd == perfoob.CmdAM:
		return r.amRecv()
	case r.cmd == perfoob.CmdStream:
		return r.streamRecv(r.recvBuf, r.recvParams, r.c.bytes)
	case r.block:
		return r.recvBlocking()
	}
	if r.receives.full() {
		if err := r.await(r.receives.take()); err != nil {
			return err
		}
	}
	if r.probe {
		if err := r.awaitTagged(); err != nil {
			return err
		}
	}
	req, err := r.w.TagRecv(r.tag, r.mask, r.recvBuf, r.recvParams)
	if req != nil {
		r.receives.add(req)
	}
	return err
}

// sendAck tells the sender of a stream that all messages have arrived.
func (r *ucpRunner) sendAck() error {
	buf, params := r.sendBuf, r.sendParams
	if buf != nil {
		r.sendBuf = buf[:1]
	} else { // as in C: the first part instead of one byte
		r.sendParams = &r.ack
	}
	err := r.sendOne()
	r.sendBuf, r.sendParams = buf, params
	if err != nil {
		return err
	}
	return r.drain()
}

// recvAck waits for the other side's sendAck.
func (r *ucpRunner) recvAck() error {
	switch r.cmd {
	case perfoob.CmdAM:
		return r.amRecv()
	case perfoob.CmdStream:
		return r.streamRecv(r.ackBuf, nil, r.ackSize)
	}
	return r.tagRecvAck()
}
