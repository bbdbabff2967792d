//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The loops of the tag tests (lib/ucp_tests.cc). In a ping-pong the server sends
// first and the client answers. In a stream the client sends, with at most a
// window of messages outstanding, and the server receives; between 1.22
// programs the server says at the end that it has got everything.

// firstTag labels every message of the tests, and of the first thread where
// threads share a worker.
const firstTag ucp.Tag = 0x1337a880

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
	for !r.c.done() {
		if err := r.recvOne(); err != nil {
			return err
		}
		r.c.update()
	}
	if err := r.drain(); err != nil || !r.g.release().StreamAck() {
		return err
	}
	return r.sendAck()
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

// sendOne sends a message, once there is room in the window.
func (r *ucpRunner) sendOne() error {
	if r.block {
		return r.sendBlocking()
	}
	if r.sends.full() {
		if err := r.await(r.sends.take()); err != nil {
			return err
		}
	}
	if r.sync {
		return r.start(r.sendBuf, &r.send)
	}
	req, err := r.ep.TagSend(r.tag, r.sendBuf, r.sendParams)
	if req != nil {
		r.sends.add(req)
	}
	return err
}

// start starts a send.
func (r *ucpRunner) start(buf []byte, p *ucp.RequestParams) error {
	var req *ucp.Request
	var err error
	if r.sync {
		req, err = r.ep.TagSendSync(r.tag, buf, p)
	} else {
		req, err = r.ep.TagSend(r.tag, buf, p)
	}
	r.sends.add(req)
	return err
}

// recvOne posts a receive, once there is room in the window.
func (r *ucpRunner) recvOne() error {
	if r.block {
		return r.recvBlocking()
	}
	if r.receives.full() {
		if err := r.await(r.receives.take()); err != nil {
			return err
		}
	}
	if r.probe {
		if err := r.awaitMessage(); err != nil {
			return err
		}
	}
	req, err := r.w.TagRecv(r.tag, r.mask, r.recvBuf, r.recvParams)
	if req != nil {
		r.receives.add(req)
	}
	return err
}

// awaitMessage waits for a message to arrive before a receive is posted for it.
func (r *ucpRunner) awaitMessage() error {
	for {
		if _, ok := r.w.TagPeek(r.tag, r.mask); ok {
			return nil
		}
		if err := r.advance(); err != nil {
			return err
		}
	}
}

// sendAck tells the sender of a stream that everything has arrived.
func (r *ucpRunner) sendAck() error {
	if err := r.start(nil, &r.ack); err != nil {
		return err
	}
	return r.drain()
}

// recvAck waits for the other side's sendAck.
func (r *ucpRunner) recvAck() error {
	req, err := r.w.TagRecv(r.tag, r.mask, r.ackBuf, nil)
	if err != nil {
		return err
	}
	err = r.await(req)
	if ucs.StatusOf(err) == ucs.ErrMessageTruncated {
		return nil // it has arrived, longer than expected
	}
	return err
}
