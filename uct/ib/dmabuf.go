//go:build linux

package ib

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// probeDMABuf returns nil if the device registers dma-bufs, else the obstacle: the kernel or the
// driver. It tries to register the invalid descriptor -1: a driver that supports dma-bufs fails
// with EBADF (uct_ib_md_check_dmabuf).
func (d *Domain) probeDMABuf() error {
	err := d.ctx.ProbeDMABuf()
	if err == nil {
		mr, why := d.pd.RegDMABufMR(0, uint64(os.Getpagesize()), 0, -1, 0)
		if why == nil {
			return mr.Close()
		}
		if errors.Is(why, syscall.EBADF) {
			return nil
		}
		err = fmt.Errorf("its driver does not register them: %w", why)
	}
	return fmt.Errorf("ib: no dma-bufs with %s: %w: %w", d.device.Name, err, ucs.ErrUnsupported)
}

// RegisterDMABuf implements uct.DMABufRegistrar.
func (d *Domain) RegisterDMABuf(fd int, offset uint64, length int, address uint64, access uct.Access) (uct.MemHandle, error) {
	switch {
	case d.noDMABuf != nil:
		return nil, d.noDMABuf
	case length <= 0:
		return nil, fmt.Errorf("ib: %d bytes of a dma-buf: %w", length, ucs.ErrInvalidParam)
	}
	mr, err := d.pd.RegDMABufMR(offset, uint64(length), address, fd, d.accessOf(access))
	if err != nil {
		return nil, err
	}
	d.regions.add(1)
	return &Region{domain: d, mr: mr, foreign: true}, nil
}
