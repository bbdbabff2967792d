//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// optionsLeftOut are the options of C's tool that this tool does not have, with the reasons.
var optionsLeftOut = []struct{ letters, reason string }{
	{"a", "operations that an accelerator starts"},
	{"gG", "C's daemon that carries out operations for others"},
	{"K", "setup by datagrams of an InfiniBand subnet (MAD)"},
	{"P", "setup by MPI; -P 0, no MPI, is accepted"},
}

// leftOut returns the error for an option that this tool does not have.
func leftOut(opt string) error {
	for _, o := range optionsLeftOut {
		if strings.Contains(o.letters, opt) {
			reason, _, _ := strings.Cut(o.reason, "; ")
			return fmt.Errorf("option -%s, %s: %w", opt, reason, errLeftOut)
		}
	}
	return fmt.Errorf("option -%s, which C's tool parses and refuses: %w", opt, errLeftOut)
}

// adjust completes the parameters of one test and checks whether it can run.
func adjust(p *params) error {
	if p.Test == nil {
		return errNoTest
	}
	if p.Window == 0 {
		p.Window = p.Test.Window
	}
	return check(p)
}

// check checks whether a test can run with its parameters, which may come from a client.
func check(p *params) error {
	if err := p.Validate(); err != nil {
		return err
	}
	for _, t := range []ucs.MemoryType{p.SendMem, p.RecvMem} {
		if err := checkMemory(t); err != nil {
			return err
		}
	}
	if p.Test.API == perfoob.UCP && isOneSided(p.Test.Command) {
		if err := checkOneSided(p); err != nil {
			return err
		}
	}
	switch {
	case p.Test.API == perfoob.UCT && p.Threads != 1:
		return fmt.Errorf("%d threads in test %s, which supports one over UCT: %w", p.Threads, p.Test.Name, ucs.ErrUnsupported)
	case p.Flags&perfoob.FlagOneSided != 0 && !isOneSided(p.Test.Command):
		return fmt.Errorf("-o in test %s: nothing would ever arrive: %w", p.Test.Name, ucs.ErrInvalidParam)
	case p.WaitMode == perfoob.WaitSpin:
		return fmt.Errorf("wait mode %d: %w", p.WaitMode, errLeftOut)
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
		return fmt.Errorf("thread mode %v, more than %v: %w", mode, top, errLeftOut)
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
