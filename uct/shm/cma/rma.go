//go:build linux

package cma

import (
	"fmt"
	"math"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// PutZcopy implements uct.Endpoint.
func (e *endpoint) PutZcopy(iov []uct.IOV, raddr uint64, _ *uct.Rkey, c *uct.Completion) error {
	return e.start(opPut, iov, raddr, c)
}

// GetZcopy implements uct.Endpoint.
func (e *endpoint) GetZcopy(iov []uct.IOV, raddr uint64, _ *uct.Rkey, c *uct.Completion) error {
	return e.start(opGet, iov, raddr, c)
}

// start executes an operation, or queues it for progress.
func (e *endpoint) start(kind opKind, iov []uct.IOV, raddr uint64, c *uct.Completion) error {
	if err := e.ready(); err != nil {
		return err
	}
	n := uct.IOVLen(iov)
	switch {
	case len(iov) > e.iface.opts.maxIOV:
		return errTooMany(len(iov), e.iface.opts.maxIOV)
	case n == 0:
		return nil
	case uint64(uintptr(raddr)) != raddr || uint64(n) > math.MaxUint-raddr: // the kernel takes a pointer
		return errRange(kind, n, raddr)
	}
	o := e.iface.take()
	if o == nil {
		return ucs.ErrNoResource
	}
	o.set(kind, iov, n, raddr, c)
	if n <= inlineMax && e.queue.head == nil {
		if e.lost() {
			e.iface.freeOp(o)
			return e.end
		}
		// The rest is left to progress, which also handles an error.
		done, _ := o.copyOnce(e.peer.PID, e.iface.opts.segSize)
		if done == n {
			e.iface.freeOp(o)
			return nil
		}
		o.advance(done)
	}
	e.queue.push(o)
	e.activate()
	return ucs.InProgress
}

//go:noinline
func errTooMany(n, limit int) error {
	return fmt.Errorf("cma: %d memory pieces, at most %d: %w", n, limit, ucs.ErrInvalidParam)
}

//go:noinline
func errRange(kind opKind, n int, raddr uint64) error {
	return fmt.Errorf("cma: %v of %d bytes at %#x goes beyond the end of memory: %w", kind, n, raddr, ucs.ErrInvalidAddr)
}
