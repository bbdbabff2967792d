//go:build linux

package main

import (
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// firstTag is the tag of every message of the tests or, if threads share a worker, of the first
// thread.
const firstTag ucp.Tag = 0x1337a880

// awaitTagged waits for a message to arrive before a receive is posted for it.
func (r *ucpRunner) awaitTagged() error {
	for {
		if _, ok := r.w.TagPeek(r.tag, r.mask); ok {
			return nil
		}
		if err := r.advance(); err != nil {
			return err
		}
	}
}

// tagRecvAck waits for an acknowledgement.
func (r *ucpRunner) tagRecvAck() error {
	req, err := r.w.TagRecv(r.tag, r.mask, r.ackBuf, nil)
	if err != nil {
		return err
	}
	err = r.await(req)
	if ucs.StatusOf(err) == ucs.ErrMessageTruncated {
		return nil // the acknowledgement has arrived, longer than expected
	}
	return err
}
