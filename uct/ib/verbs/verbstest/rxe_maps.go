//go:build linux

package verbstest

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// rxeFile is a device that is open.
type rxeFile struct {
	f       *file
	file    int              // that all rings are in, of a program of its own; else -1
	regions map[uint64]*ring // to be mapped, by offset
	next    uint64           // offset
}

func newRxeFile(f *file) *rxeFile {
	x := &rxeFile{f: f, file: -1, regions: make(map[uint64]*ring), next: 0x1000}
	if f.space != nil {
		if fd, err := sealedFile(0); err == nil {
			x.file = fd
		}
	}
	return x
}

// pages is the file that the program maps the rings from. What it maps stays when an
// object ends, as it does in a kernel, and the file's memory is given back with it.
func (x *rxeFile) pages() int { return x.file }

func (x *rxeFile) close() {
	if x.file >= 0 {
		unix.Close(x.file)
	}
}

// newRing makes a queue of at least n elements.
func (x *rxeFile) newRing(n uint32, elem int) (*ring, syscall.Errno) {
	r, errno := newRing(n, elem, x.file, x.next)
	if errno == 0 {
		x.next += uint64(len(r.mem))
	}
	return r, errno
}

// offer lets the user map a ring.
func (x *rxeFile) offer(r *ring) abi.Mminfo {
	x.regions[r.offset] = r
	return abi.Mminfo{Offset: r.offset, Size: uint32(len(r.mem))}
}

// drop frees a ring that goes.
func (x *rxeFile) drop(r *ring) {
	delete(x.regions, r.offset)
	r.free()
}

// mmap maps a ring that was named, once.
func (x *rxeFile) mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	r := x.regions[offset]
	if r == nil || r.fd < 0 || length <= 0 || length > len(r.mem) {
		return nil, syscall.EINVAL
	}
	b, err := unix.Mmap(r.fd, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	delete(x.regions, offset)
	unix.Close(r.fd)
	r.fd = -1
	if err != nil {
		return nil, syscall.ENOMEM
	}
	return b, 0
}
