//go:build linux

package rdmacmtest

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// NodeGUID is the GUID of the device, which has index 0.
const NodeGUID = 0x020000fffe000000

// gids are the addresses of the device, by their index in verbstest's table.
var gids = []netip.Addr{1: netip.MustParseAddr("127.0.0.1"), 2: netip.MustParseAddr("::1")}

// Kernel is the connection manager of a machine. Any goroutine may use it.
type Kernel struct {
	mu       sync.Mutex
	files    map[int]*file     // by descriptor
	ids      map[uint32]*id    // by handle
	groups   map[uint32]*group // by handle
	next     uint32            // the next handle
	nextPort uint16
	faults   verbstest.Errnos
	alter    func(*cmabi.EventResp)
	forged   netip.Addr
}

// New returns a machine with the addresses 127.0.0.1 and ::1, which are GIDs 1 and 2 of its device.
func New() *Kernel {
	return &Kernel{files: make(map[int]*file), ids: make(map[uint32]*id), groups: make(map[uint32]*group), next: 1, nextPort: 40000}
}

// Open opens the connection manager. It may be open any number of times.
func (k *Kernel) Open() (ucm.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, &ucm.Error{Call: "open", Errno: err.(syscall.Errno)}
	}
	f := &file{k: k, fd: fd, f: os.NewFile(uintptr(fd), "rdmacmtest")}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[fd] = f
	return ucm.Traced(f), nil
}

// FailCall makes the command of a name, as in the table of package cmabi, fail once, after skip
// successful calls.
func (k *Kernel) FailCall(name string, skip int, errno syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults.Fail(name, skip, errno)
}

// Alter makes fn change every event before it is read; nil ends that.
func (k *Kernel) Alter(fn func(*cmabi.EventResp)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.alter = fn
}

// Forge gives requests a false source address; an address that is not valid ends that.
func (k *Kernel) Forge(from netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forged = from
}

// Objects returns the number of IDs and memberships.
func (k *Kernel) Objects() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.ids) + len(k.groups)
}

// RemoveDevice reports the removal of the device to every ID that uses it.
func (k *Kernel) RemoveDevice() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, i := range k.ids {
		if i.device() && i.uid != 0 {
			i.event(cmabi.RDMA_CM_EVENT_DEVICE_REMOVAL, 0)
		}
	}
}

// gidIndex returns the GID index of a local address, 0 if there is none.
func gidIndex(a netip.Addr) int {
	for i, g := range gids {
		if g.IsValid() && g == a {
			return i
		}
	}
	return 0
}

// file is one opening of the connection manager.
type file struct {
	k      *Kernel
	fd     int
	f      *os.File
	closed bool     // under k.mu
	queue  []*event // under k.mu
}

// event is an event that has not been read yet.
type event struct {
	id      *id // the ID that gets the event: of a request, the listener
	request *id
	group   *group
	resp    cmabi.EventResp
}

func (f *file) Name() string   { return "rdmacmtest" }
func (f *file) Poll() *os.File { return f.f }

// push adds an event. The descriptor is readable while there is one.
func (f *file) push(e *event) {
	f.queue = append(f.queue, e)
	if len(f.queue) == 1 {
		unix.Write(f.fd, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// drop removes the events that fn selects.
func (f *file) drop(fn func(*event) bool) (dropped []*event) {
	var kept []*event
	for _, e := range f.queue {
		if fn(e) {
			dropped = append(dropped, e)
		} else {
			kept = append(kept, e)
		}
	}
	f.setQueue(kept)
	return dropped
}

func (f *file) setQueue(q []*event) {
	had := len(f.queue) > 0
	f.queue = q
	switch {
	case had && len(q) == 0:
		var b [8]byte
		unix.Read(f.fd, b[:])
	case !had && len(q) > 0:
		unix.Write(f.fd, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// Close destroys all IDs of the file.
func (f *file) Close() error {
	f.k.mu.Lock()
	if f.closed {
		f.k.mu.Unlock()
		return &ucm.Error{Call: "close", Errno: syscall.EBADF}
	}
	f.closed = true
	for _, i := range f.k.ids {
		if i.f == f {
			i.destroy()
		}
	}
	delete(f.k.files, f.fd)
	f.k.mu.Unlock()
	return f.f.Close()
}

// Command executes a command.
func (f *file) Command(cmd uint32, in, data []byte) syscall.Errno {
	spec := cmabi.Lookup(cmd)
	if spec == nil || len(in) != int(spec.In.Size()) || spec.Pointer < 0 && data != nil {
		return syscall.EINVAL
	}
	if spec.Out != nil && len(data) < int(spec.Out.Size()) {
		return syscall.ENOSPC
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.closed {
		return syscall.EBADF
	}
	if cmd == cmabi.RDMA_USER_CM_CMD_GET_EVENT && len(f.queue) == 0 {
		return syscall.EAGAIN
	}
	if e := f.k.faults.Take(spec.Name); e != 0 {
		return e
	}
	return f.serve(cmd, in, data)
}

// load reads a struct, store writes one; both require that b is long enough.
func load[T cmabi.Struct](b []byte) (v T) {
	copy(cmabi.Bytes(&v), b)
	return v
}

func store[T cmabi.Struct](b []byte, v T) { copy(b, cmabi.Bytes(&v)) }
