//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// need describes the capability that a test requires of a transport, with the transport's limits.
type need struct {
	flag     uct.IfaceFlags
	what     string
	min, max int // bytes of a message
	maxIOV   int
}

// needs returns the capability that a test requires.
func needs(p *params, a *uct.IfaceAttr) need {
	if p.Test.Command == perfoob.CmdAM {
		switch p.Layout {
		case perfoob.Bcopy:
			return need{uct.IfaceAMBcopy, "am bcopy", 0, a.AM.MaxBcopy, 0}
		case perfoob.Zcopy:
			return need{uct.IfaceAMZcopy, "am zcopy", a.AM.MinZcopy, a.AM.MaxZcopy, a.AM.MaxIOV}
		case perfoob.ShortIOV:
			return need{uct.IfaceAMShort, "am short", 0, a.AM.MaxShort, a.AM.MaxIOV}
		}
		return need{uct.IfaceAMShort, "am short", 0, a.AM.MaxShort, 0}
	}
	if p.Test.Command == perfoob.CmdGet {
		return needsAccess(p.Layout, "get", a.Get, uct.IfaceGetShort, uct.IfaceGetBcopy, uct.IfaceGetZcopy)
	}
	return needsAccess(p.Layout, "put", a.Put, uct.IfacePutShort, uct.IfacePutBcopy, uct.IfacePutZcopy)
}

// needsAccess is needs for accesses to the peer's memory.
func needsAccess(l perfoob.Layout, what string, have uct.RMALimits, short, bcopy, zcopy uct.IfaceFlags) need {
	switch l {
	case perfoob.Bcopy:
		return need{bcopy, what + " bcopy", 0, have.MaxBcopy, 0}
	case perfoob.Zcopy:
		return need{zcopy, what + " zcopy", have.MinZcopy, have.MaxZcopy, have.MaxIOV}
	}
	return need{short, what + " short", 0, have.MaxShort, 0} // no transport has short gets
}

// checkTransport checks whether a transport supports a test (uct_perf_test_check_capabilities in
// lib/libperf.c).
func checkTransport(p *params, a *uct.IfaceAttr) error {
	if isAtomic(p.Test.Command) {
		return checkAtomic(p, a)
	}
	n, size := needs(p, a), p.MessageSize()
	switch {
	case p.Test.Command != perfoob.CmdAM && p.Layout == perfoob.ShortIOV:
		return fmt.Errorf("layout %v is for active messages: %w", p.Layout, ucs.ErrInvalidParam)
	case !a.Flags.Has(n.flag):
		return fmt.Errorf("%v does not have %s: %w", a.Resource, n.what, ucs.ErrUnsupported)
	case size < n.min:
		return fmt.Errorf("message of %d bytes, %s of %v takes at least %d: %w", size, n.what, a.Resource, n.min, ucs.ErrUnsupported)
	case size > n.max:
		return fmt.Errorf("message of %d bytes, %s of %v takes at most %d: %w", size, n.what, a.Resource, n.max, ucs.ErrUnsupported)
	case n.maxIOV > 0 && len(p.Sizes) > n.maxIOV:
		return fmt.Errorf("message of %d parts, %s of %v takes at most %d: %w", len(p.Sizes), n.what, a.Resource, n.maxIOV, ucs.ErrUnsupported)
	}
	if p.Test.Command == perfoob.CmdAM {
		return checkHeader(p, a)
	}
	return nil
}

// checkHeader checks the header of active messages.
func checkHeader(p *params, a *uct.IfaceAttr) error {
	h := p.UCTHeader
	switch {
	case p.Layout == perfoob.Short && h != 8:
		return fmt.Errorf("header of %d bytes, short messages need 8: %w", h, ucs.ErrInvalidParam)
	case h > p.MessageSize():
		return fmt.Errorf("header of %d bytes in a message of %d: %w", h, p.MessageSize(), ucs.ErrInvalidParam)
	case p.Layout == perfoob.Zcopy && h > a.AM.MaxZcopyHdr:
		return fmt.Errorf("header of %d bytes, %v takes at most %d: %w", h, a.Resource, a.AM.MaxZcopyHdr, ucs.ErrUnsupported)
	case p.Layout == perfoob.Zcopy && len(p.Sizes) > 1 && h > p.Sizes[0]:
		return fmt.Errorf("header of %d bytes, first part of %d: %w", h, p.Sizes[0], ucs.ErrInvalidParam)
	}
	return nil
}

// checkAtomic checks whether a transport supports the operation of a test on operands of the
// message's size.
func checkAtomic(p *params, a *uct.IfaceAttr) error {
	var ops uct.AtomicOps
	size := p.MessageSize()
	switch size {
	case 4:
		ops = a.Atomic32
	case 8:
		ops = a.Atomic64
	default:
		return fmt.Errorf("message of %d bytes, operands of atomics have 4 or 8: %w", size, ucs.ErrInvalidParam)
	}
	have, op, what := ops.Fetch, uct.AtomicAdd, "fetch-and-add"
	switch p.Test.Command {
	case perfoob.CmdAdd:
		have, what = ops.Post, "add"
	case perfoob.CmdSwap:
		op, what = uct.AtomicSwap, "swap"
	case perfoob.CmdCSwap:
		op, what = uct.AtomicCSwap, "compare-and-swap"
	}
	if have&(1<<op) == 0 {
		return fmt.Errorf("%v does not have atomic %s of %d bits: %w", a.Resource, what, 8*size, ucs.ErrUnsupported)
	}
	return nil
}
