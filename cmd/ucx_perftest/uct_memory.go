//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/uct"
)

// memory is a buffer, which may be registered with a memory domain.
type memory struct {
	buf    []byte
	handle uct.MemHandle // nil if the buffer is not registered
}

// memoryAlign is the alignment of buffers, and the unit of their sizes: the two directions share no
// cache line, and words are aligned.
const memoryAlign = 64

// newMemory allocates n bytes as the domain allows: from the domain itself, whose memory more peers
// may be able to reach, from the heap and registered, or from the heap only.
func newMemory(md uct.MemoryDomain, n int, access uct.Access, nonblock bool) (memory, error) {
	flags := md.Attr().Flags
	if flags&uct.MDFlagAlloc != 0 {
		h, err := md.Alloc(uct.AllocParams{Length: n, Nonblock: nonblock, Access: access, Name: "perftest"})
		if err != nil {
			return memory{}, err
		}
		return memory{h.Bytes()[:n], h}, nil
	}
	buf := make([]byte, (n+memoryAlign-1)/memoryAlign*memoryAlign)[:n]
	if flags&uct.MDFlagRegister == 0 {
		return memory{buf: buf}, nil
	}
	h, err := md.Register(buf, access)
	return memory{buf, h}, err
}

// free frees the memory.
func (m *memory) free(md uct.MemoryDomain) error {
	if m.handle == nil {
		return nil
	}
	h := m.handle
	m.handle = nil
	return md.Deregister(h)
}

// allocate allocates the buffers of both directions.
func (r *uctRunner) allocate() (err error) {
	n, nonblock := r.p.Extent(), r.p.Flags&perfoob.FlagMapNonblock != 0
	if r.sendMem, err = newMemory(r.md, n, uct.AccessLocal, nonblock); err != nil {
		return err
	}
	if r.recvMem, err = newMemory(r.md, n, uct.AccessAll, nonblock); err != nil {
		return err
	}
	r.sendBuf, r.recvBuf = r.sendMem.buf, r.recvMem.buf
	r.snAt = r.length - 1
	if r.p.Layout == perfoob.Zcopy {
		r.snAt = n - 1 // the extent includes gaps between the parts
	}
	return nil
}

// list returns the scatter-gather list of a message, without its first skip bytes.
func (r *uctRunner) list(skip int) []uct.IOV {
	var iov []uct.IOV
	for _, part := range pieces(r.sendBuf, r.p) {
		n := min(skip, len(part))
		skip -= n
		iov = append(iov, uct.IOV{Data: part[n:], Mem: r.sendMem.handle})
	}
	return iov
}
