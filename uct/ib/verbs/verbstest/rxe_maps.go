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
	regions map[uint64]*ring // to be mapped, by offset
	next    uint64           // offset
}

// offer lets the user map a ring.
func (x *rxeFile) offer(r *ring) abi.Mminfo {
	r.offset = x.next
	x.next += uint64(len(r.mem))
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
	if r == nil || length <= 0 || length > len(r.mem) {
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
