//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// Blocking calls, in place of requests and progress (-E block). They test the calls as applications
// use them: only the failure of another thread of this side ends a call, so if the other side
// disappears during a test, this side hangs.

// checkBlocking checks whether a test can use blocking calls.
func checkBlocking(p *params) error {
	switch {
	case !isTagged(p.Test):
		return fmt.Errorf("-E block in test %s, need a tag test: %w", p.Test.Name, ucs.ErrUnsupported)
	case p.SendType == perfoob.IOV || p.RecvType == perfoob.IOV:
		return fmt.Errorf("-E block with scattered memory: %w", ucs.ErrUnsupported)
	case p.Flags&(perfoob.FlagLoopback|perfoob.FlagTagUnexpProbe) != 0:
		return fmt.Errorf("-E block with loopback (-l) or probing (-U): %w", ucs.ErrUnsupported)
	}
	return nil
}

// sendBlocking sends a message and waits for its completion.
func (r *ucpRunner) sendBlocking() error {
	if r.cmd == perfoob.CmdTagSync {
		return r.ep.TagSendSyncWait(r.g.ctx, r.tag, r.sendBuf)
	}
	return r.ep.TagSendWait(r.g.ctx, r.tag, r.sendBuf)
}

// recvBlocking waits for a message.
func (r *ucpRunner) recvBlocking() error {
	_, err := r.w.TagRecvWait(r.g.ctx, r.tag, r.mask, r.recvBuf)
	return err
}
