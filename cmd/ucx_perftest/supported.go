//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// runnable says whether a test is one that this tool has.
func runnable(t *perfoob.Test) error {
	switch {
	case t.API == perfoob.UCP && (t.Command == perfoob.CmdTag || t.Command == perfoob.CmdTagSync || isOneSided(t.Command)):
		return nil
	case t.API == perfoob.UCT:
		return nil
	}
	return fmt.Errorf("test %s: %w", t.Name, errNotYet)
}

// adjust completes the parameters of one test and says whether it can be run.
func adjust(p *params) error {
	if p.Test == nil {
		return errNoTest
	}
	if p.Window == 0 {
		p.Window = p.Test.Window
	}
	return check(p)
}

// check says whether a test can be run with its parameters, which may come from
// a client.
func check(p *params) error {
	if err := runnable(p.Test); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Test.API == perfoob.UCP && isOneSided(p.Test.Command) {
		if err := checkOneSided(p); err != nil {
			return err
		}
	}
	const later = perfoob.FlagOneSided | perfoob.FlagMapNonblock | perfoob.FlagPreregistered
	switch {
	case p.Test.API == perfoob.UCT && p.Threads != 1:
		return fmt.Errorf("%d threads in test %s, over UCT there is one: %w", p.Threads, p.Test.Name, ucs.ErrUnsupported)
	case p.SendMem != ucs.MemoryHost || p.RecvMem != ucs.MemoryHost:
		return fmt.Errorf("memory %v and %v: %w", p.SendMem, p.RecvMem, errNotYet)
	case p.Flags&later != 0:
		return fmt.Errorf("one-sided progress, or registration in advance or without population (flags %#x): %w", p.Flags&later, errNotYet)
	case p.WaitMode == perfoob.WaitSpin:
		return fmt.Errorf("wait mode %d: %w", p.WaitMode, errNotYet)
	case p.Test.API == perfoob.UCT && p.MessageSize() < 1:
		return fmt.Errorf("message of 0 bytes in test %s: %w", p.Test.Name, ucs.ErrInvalidParam)
	}
	if p.block {
		if err := checkBlocking(p); err != nil {
			return err
		}
	}
	if p.shared {
		if err := checkShared(p); err != nil {
			return err
		}
	}
	if mode, top := workerMode(p), ucp.Library().MaxThreadMode; p.Test.API == perfoob.UCP && mode > top {
		return fmt.Errorf("thread mode %v, more than %v: %w", mode, top, errNotYet)
	}
	if p.Test.API == perfoob.UCT {
		if p.Device == perfoob.None {
			return fmt.Errorf("test %s needs a device, -d: %w", p.Test.Name, ucs.ErrInvalidParam)
		}
		if p.Transport == perfoob.None {
			return fmt.Errorf("test %s needs a transport, -x: %w", p.Test.Name, ucs.ErrInvalidParam)
		}
	}
	return nil
}
