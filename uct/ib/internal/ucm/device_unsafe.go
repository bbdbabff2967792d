//go:build linux

package ucm

// Soundness: a frame is one slice of the heap without pointers. Its address goes into the frame as
// a number, and to the kernel, only while the frame is pinned, so the frame is neither moved nor
// freed. The conversion to uintptr is inside the argument list of the system call.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
)

// Path is the device file of the kernel's connection manager.
const Path = "/dev/infiniband/rdma_cm"

// headerSize is the size of cmabi.CmdHdr.
const headerSize = int(unsafe.Sizeof(cmabi.CmdHdr{}))

// device implements File by the kernel's device.
type device struct {
	f   *os.File
	raw syscall.RawConn
}

// abiVersion is the file with the version of the interface.
const abiVersion = "/sys/class/misc/rdma_cm/abi_version"

// Open opens the connection manager of the kernel.
func Open() (File, error) {
	if b, err := os.ReadFile(abiVersion); err == nil && strings.TrimSpace(string(b)) != strconv.Itoa(cmabi.RDMA_USER_CM_ABI_VERSION) {
		return nil, fmt.Errorf("rdma_cm: the kernel's interface has version %.9q, not %d: %w", b, cmabi.RDMA_USER_CM_ABI_VERSION,
			ucs.ErrUnsupported)
	}
	fd, err := unix.Open(Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		e := &Error{Call: "open " + Path, Errno: err.(syscall.Errno)}
		if e.Errno == syscall.ENOENT || e.Errno == syscall.ENXIO {
			e.Hint = "check that the kernel module rdma_ucm is loaded"
		}
		return nil, e
	}
	f := os.NewFile(uintptr(fd), Path)
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return Traced(&device{f: f, raw: raw}), nil
}

func (d *device) Name() string   { return "rdma_cm" }
func (d *device) Poll() *os.File { return d.f }

func (d *device) Close() error {
	if err := d.f.Close(); err != nil {
		return &Error{Call: "close", Errno: syscall.EBADF}
	}
	return nil
}

func (d *device) Command(cmd uint32, in, data []byte) (errno syscall.Errno) {
	spec := cmabi.Lookup(cmd)
	if spec == nil || len(in) != int(spec.In.Size()) || spec.Pointer < 0 && data != nil {
		return syscall.EINVAL
	}
	// One slice for everything, so that one pin holds it; of words, for alignment.
	at := (headerSize + len(in) + 7) &^ 7
	words := make([]uint64, (at+len(data)+7)/8)
	frame := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
	hdr := cmabi.CmdHdr{Cmd: cmd, In: uint16(len(in))}
	if spec.Out != nil {
		hdr.Out = uint16(len(data))
	} else {
		copy(frame[at:], data)
	}
	copy(frame, cmabi.Bytes(&hdr))
	copy(frame[headerSize:], in)
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(words))
	defer pin.Unpin()
	if data != nil {
		address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(frame)))) + uint64(at)
		binary.NativeEndian.PutUint64(frame[headerSize+spec.Pointer:], address)
	}
	// Control keeps the descriptor open during the call, even if another goroutine closes the file.
	err := d.raw.Control(func(fd uintptr) {
		for {
			_, _, errno = unix.Syscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(words))), uintptr(headerSize+len(in)))
			if errno != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return syscall.EBADF
	}
	if errno == 0 && spec.Out != nil {
		copy(data, frame[at:])
	}
	return errno
}
