//go:build linux

package verbstest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// file is the device opened once: a context and its objects.
type file struct {
	k         *Kernel
	drv       driver
	space     Space       // nil: this process
	quiet     atomic.Bool // the bell is not worth a look: see Kernel.muffle
	context   bool
	closed    bool
	dead      bool               // the process that opened it is
	told      map[subject]uint32 // events
	events    *mailbox           // for them, nil until there is one
	channels  map[int]*mailbox   // for completions, by the user's descriptor
	mailboxes []*mailbox         // all
	objects   map[uint32]any     // by handle
	next      uint32
	mapped    int // mappings
}

func (f *file) Name() string { return fmt.Sprintf("verbstest%d", f.k.number) }

// Ioctl answers a request.
func (f *file) Ioctl(frame *uverbs.Frame) syscall.Errno {
	r, errno := uverbs.Parse(frame)
	if errno != 0 {
		return errno
	}
	if number, _ := f.k.of.driver(); r.Driver != number {
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
	f.drv.look() // what was rung before is
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

// Write takes the doorbell.
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
		f.k.muffle()
		return 0, e
	}
	if e := f.postSend(load[abi.PostSend](b[header:])); e != 0 {
		return 0, e
	}
	return len(b), 0
}

// Mmap maps what the driver has named.
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

// Close destroys everything.
func (f *file) Close() error {
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if f.closed {
		return syscall.EBADF
	}
	f.closed = true
	f.muffle()
	f.destroyAll()
	f.drv.close()
	for _, m := range f.mailboxes {
		m.close()
	}
	f.k.files = slices.DeleteFunc(f.k.files, func(o *file) bool { return o == f })
	return nil
}
