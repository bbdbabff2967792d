//go:build linux

package memory

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// probeDMABuf returns nil if the device registers dma-bufs, else an error that says whether the
// kernel or the driver cannot. It tries to register the invalid descriptor -1, for which a driver
// that supports dma-bufs fails with EBADF (uct_ib_md_check_dmabuf).
func (s *Space) probeDMABuf(name string) error {
	err := s.ctx.ProbeDMABuf()
	if err == nil {
		mr, why := s.pd.RegDMABufMR(0, uint64(os.Getpagesize()), 0, -1, 0)
		if why == nil {
			return mr.Close()
		}
		if errors.Is(why, syscall.EBADF) {
			return nil
		}
		err = fmt.Errorf("the driver cannot register dma-bufs: %w", why)
	}
	return fmt.Errorf("ib: no dma-bufs on %s: %w: %w", name, err, ucs.ErrUnsupported)
}

// RegisterDMABuf implements uct.DeviceMemory.
func (s *Space) RegisterDMABuf(fd int, offset uint64, length int, address uint64, access uct.Access) (uct.MemHandle, error) {
	switch {
	case s.noDMABuf != nil:
		return nil, s.noDMABuf
	case length <= 0:
		return nil, fmt.Errorf("ib: %d bytes of a dma-buf: %w", length, ucs.ErrInvalidParam)
	}
	mr, err := s.pd.RegDMABufMR(offset, uint64(length), address, fd, s.accessOf(access))
	if err != nil {
		return nil, err
	}
	s.regions.add(1)
	return &Region{space: s, mr: mr, foreign: true}, nil
}
