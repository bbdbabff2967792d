//go:build linux

package memory

import (
	"errors"
	"syscall"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Space manages the memory that a device may access. Any goroutine may use it.
type Space struct {
	uct.NoDeviceMemory

	ctx      *verbs.Context
	pd       *verbs.PD
	access   verbs.Access // of every registration, in addition to the rights that are asked for
	locks    bool         // registered memory is locked, so the limit of the process applies
	noDMABuf error        // why memory of other devices cannot be registered; nil if it can
	regions  regionPool
}

// Open prepares the memory of a device; name is for errors. locks is true if registered memory is
// locked; only simulated devices lock no memory.
func Open(s *Space, ctx *verbs.Context, pd *verbs.PD, name string, access verbs.Access, locks bool) {
	s.ctx, s.pd, s.access, s.locks = ctx, pd, access, locks
	s.noDMABuf = s.probeDMABuf(name)
}

// HasDMABuf reports whether memory of other devices can be registered.
func (s *Space) HasDMABuf() bool { return s.noDMABuf == nil }

// Registrations returns the number of regions and of chunks of pools.
func (s *Space) Registrations() int { return s.regions.live() }

// Closed returns the result of closing an object of the device, given the error of its Close. If the
// device is gone, the kernel fails every call; Closed then returns nil, because nothing is left to
// close.
func (s *Space) Closed(err error) error {
	if err == nil || !errors.Is(err, syscall.EIO) {
		return err
	}
	if _, gone := s.ctx.QueryPort(1); errors.Is(gone, syscall.EIO) {
		return nil
	}
	return err
}
