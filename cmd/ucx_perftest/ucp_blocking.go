//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// The calls that wait by themselves, in place of requests and progress. They are
// for people, and this is what those get: nothing but the failure of another thread
// ends them, so a side whose other one disappears in the middle of a test stays.

// checkBlocking says whether a test can be run with them.
func checkBlocking(p *params) error {
	switch {
	case !isTagged(p.Test):
		return fmt.Errorf("-E block in test %s, need a tag test: %w", p.Test.Name, ucs.ErrUnsupported)
	case p.SendType == perfoob.IOV || p.RecvType == perfoob.IOV:
		return fmt.Errorf("-E block with scattered memory: %w", ucs.ErrUnsupported)
	case p.Flags&(perfoob.FlagLoopback|perfoob.FlagTagUnexpProbe) != 0:
		return fmt.Errorf("-E block in a process that talks to itself, or probes: %w", ucs.ErrUnsupported)
	}
	return nil
}

// sendBlocking sends a message and waits until it has left.
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
