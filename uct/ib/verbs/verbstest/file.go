//go:build linux

package verbstest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// file is one opening of the device: a context and its objects.
type file struct {
	k          *Kernel
	drv        driver
	space      Space       // memory of the program; nil: this process
	quiet      atomic.Bool // doorbells by write may be ignored: see file.updateQuiet
	context    bool
	closed     bool
	dead       bool               // the process that opened it is dead
	eventsSent map[subject]uint32 // number of events sent, by the object that they are about
	events     *eventPipe         // asynchronous events, nil until allocated
	channels   map[int]*eventPipe // completion events, by the user's descriptor
	eventPipes []*eventPipe       // mailboxes of events and of all channels
	objects    map[uint32]any     // by handle
	next       uint32
	mapped     int // number of mappings
}

func (f *file) Name() string { return fmt.Sprintf("verbstest%d", f.k.number) }

// Ioctl answers a request of the ioctl interface, RDMA_VERBS_IOCTL.
func (f *file) Ioctl(frame *uverbs.Frame) syscall.Errno {
	r, errno := uverbs.Parse(frame)
	if errno != 0 {
		return errno
	}
	if number, _ := f.k.kind.driver(); r.Driver != number {
		return syscall.EINVAL
	}
	serve := methods[r.Spec]
	if serve == nil {
		return syscall.EPROTONOSUPPORT
	}
	if r.Missing() != nil {
		return syscall.EINVAL
	}
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if f.closed {
		return syscall.EBADF
	}
	if f.k.removed || f.dead {
		return syscall.EIO
	}
	if !f.context && r.Spec.Name != "DEVICE.GET_CONTEXT" && r.Spec.Name != "DEVICE.INVOKE_WRITE" {
		return syscall.EINVAL
	}
	if e := f.k.faults.Take(r.Spec.Name); e != 0 {
		return e
	}
	f.drv.look() // handle the doorbells that rang before this call
	if e := serve(f, r); e != 0 {
		return e
	}
	for i := range r.Attrs {
		if a := &r.Attrs[i]; a.Spec.Kind.FromKernel() {
			a.Raw.Flags |= abi.UVERBS_ATTR_F_VALID_OUTPUT
		}
	}
	return 0
}

// Write handles POST_SEND, the only command that is accepted by write(2). It rings a doorbell.
func (f *file) Write(b []byte) (int, syscall.Errno) {
	if f.quiet.Load() {
		return len(b), 0
	}
	const header = 8
	if len(b) < header {
		return 0, syscall.EINVAL
	}
	command, inWords := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	spec := abi.LookupCommand(command)
	if spec == nil || command != abi.IB_USER_VERBS_CMD_POST_SEND || !f.drv.has(command) {
		return 0, syscall.EOPNOTSUPP
	}
	if int(inWords)*4 != len(b) || len(b)-header < int(spec.In.Size()) {
		return 0, syscall.EINVAL
	}
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if f.closed {
		return 0, syscall.EBADF
	}
	if f.k.removed || f.dead {
		return 0, syscall.EIO
	}
	if e := f.k.faults.Take("write"); e != 0 {
		f.k.updateQuiet()
		return 0, e
	}
	if e := f.postSend(load[abi.PostSend](b[header:])); e != 0 {
		return 0, e
	}
	return len(b), 0
}

// Mmap maps a region at the offset that an answer of the driver has given.
func (f *file) Mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if e := f.k.faults.Take("mmap"); e != 0 {
		return nil, e
	}
	b, errno := f.drv.mmap(offset, length)
	if errno == 0 {
		f.mapped++
	}
	return b, errno
}

func (f *file) Munmap(b []byte) syscall.Errno {
	if err := unix.Munmap(b); err != nil {
		return syscall.EINVAL
	}
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	f.mapped--
	return 0
}

// Close destroys all objects of the file.
func (f *file) Close() error {
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if f.closed {
		return syscall.EBADF
	}
	f.closed = true
	f.updateQuiet()
	f.destroyAll()
	f.drv.close()
	for _, m := range f.eventPipes {
		m.close()
	}
	f.k.files = slices.DeleteFunc(f.k.files, func(o *file) bool { return o == f })
	return nil
}
