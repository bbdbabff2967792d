package verbstest

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// file is the device opened once: a context and its objects.
type file struct {
	k        *Kernel
	context  bool
	closed   bool
	asyncFD  int // write end
	async    bool
	pipes    []int          // write ends
	readEnds []int          // the user's
	byFD     map[int]int    // read end to write end of completion channels
	objects  map[uint32]any // by handle
	next     uint32
	regions  map[uint64]*ring // to be mapped, by offset
	mapped   int
}

func (f *file) Name() string { return "verbstest0" }

// Ioctl answers a request.
func (f *file) Ioctl(frame *uverbs.Frame) syscall.Errno {
	r, errno := uverbs.Parse(frame)
	if errno != 0 {
		return errno
	}
	if r.Driver != Driver {
		return syscall.EINVAL
	}
	serve := methods[r.Spec]
	if serve == nil {
		return syscall.EPROTONOSUPPORT
	}
	if r.Missing() != nil {
		return syscall.EINVAL
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.closed {
		return syscall.EBADF
	}
	if f.k.removed {
		return syscall.EIO
	}
	if !f.context && r.Spec.Name != "DEVICE.GET_CONTEXT" && r.Spec.Name != "DEVICE.INVOKE_WRITE" {
		return syscall.EINVAL
	}
	if e := f.k.faults.Take(r.Spec.Name); e != 0 {
		return e
	}
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
	const header = 8
	if len(b) < header {
		return 0, syscall.EINVAL
	}
	command, inWords := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	spec := abi.LookupCommand(command)
	if spec == nil || command != abi.IB_USER_VERBS_CMD_POST_SEND {
		return 0, syscall.EOPNOTSUPP
	}
	if int(inWords)*4 != len(b) || len(b)-header < int(spec.In.Size()) {
		return 0, syscall.EINVAL
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.closed {
		return 0, syscall.EBADF
	}
	if f.k.removed {
		return 0, syscall.EIO
	}
	if e := f.k.faults.Take("write"); e != 0 {
		return 0, e
	}
	if e := f.postSend(load[abi.PostSend](b[header:])); e != 0 {
		return 0, e
	}
	return len(b), 0
}

// Mmap maps a queue that was named, once.
func (f *file) Mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	r := f.regions[offset]
	if e := f.k.faults.Take("mmap"); e != 0 {
		return nil, e
	}
	if r == nil || length <= 0 || length > len(r.mem) {
		return nil, syscall.EINVAL
	}
	b, err := unix.Mmap(r.fd, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	delete(f.regions, offset)
	unix.Close(r.fd)
	r.fd = -1
	if err != nil {
		return nil, syscall.ENOMEM
	}
	f.mapped++
	return b, 0
}

func (f *file) Munmap(b []byte) syscall.Errno {
	if err := unix.Munmap(b); err != nil {
		return syscall.EINVAL
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.mapped--
	return 0
}

// Close destroys everything.
func (f *file) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.closed {
		return syscall.EBADF
	}
	f.closed = true
	f.destroyAll()
	for _, fd := range f.pipes {
		unix.Close(fd)
	}
	delete(f.k.files, f)
	return nil
}

// destroyAll ends all objects. Lock held.
func (f *file) destroyAll() {
	for _, o := range f.objects {
		if q, ok := o.(*qp); ok {
			q.groups = nil
		}
	}
	for range 5 { // the depth of references among objects
		for h := range f.objects {
			f.destroy(h)
		}
	}
}

// Mapped counts the queues that are mapped through any file.
func (k *Kernel) Mapped() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for f := range k.files {
		n += f.mapped
	}
	return n
}

// pipe makes a descriptor that the user reads records from.
func (f *file) pipe() (read, write int, errno syscall.Errno) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, syscall.EMFILE
	}
	unix.SetNonblock(p[1], true)
	f.pipes = append(f.pipes, p[1])
	f.readEnds = append(f.readEnds, p[0])
	return p[0], p[1], 0
}

// event tells the user of something that happened.
func (f *file) event(typ uint32, element uint64) {
	if !f.async {
		return
	}
	e := abi.AsyncEventDesc{Element: element, EventType: typ}
	unix.Write(f.asyncFD, abi.Bytes(&e)) // as in C, a reader too slow loses events
}

// add gives an object a handle.
func (f *file) add(o any) uint32 {
	h := f.next
	f.next++
	f.objects[h] = o
	return h
}

// offer lets the user map a ring.
func (f *file) offer(r *ring) abi.Mminfo {
	r.offset = f.k.nextOff
	f.k.nextOff += uint64(len(r.mem))
	f.regions[r.offset] = r
	return abi.Mminfo{Offset: r.offset, Size: uint32(len(r.mem))}
}

// drop frees a ring of an object that goes.
func (f *file) drop(r *ring) {
	if r == nil {
		return
	}
	delete(f.regions, r.offset)
	r.free()
}

// find is the object of a handle, if it is a T.
func find[T any](f *file, h uint32) (T, bool) {
	o, ok := f.objects[h].(T)
	return o, ok
}
