//go:build linux

package verbstest

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Support for a program that runs other programs on the devices: see Opened.

// Opened is a device that another program has open. It is used like any uverbs.File:
// the caller intercepts the program's calls, copies the arguments of ioctl(2) into a
// uverbs.Frame, with pointers into that, calls Ioctl, and copies the answers back.
// Addresses in driver-specific data, of registered memory and in work requests are the
// program's own, and stay unchanged.
//
// Descriptors are passed by their numbers in this process. Those in answers, of the
// events of the device (ASYNC_EVENT.ALLOC) and of completion channels
// (CREATE_COMP_CHANNEL), belong to the caller, which gives the program a duplicate. The
// descriptor of a channel must stay open until the program has closed its own, because
// CQ.CREATE names it.
type Opened struct {
	uverbs.File
	f *file
}

// OpenIn opens the device for a program with the memory s; nil is this process's.
func (k *Kernel) OpenIn(s Space) *Opened {
	f := k.openIn(s)
	return &Opened{uverbs.Traced(f), f}
}

// Pages returns the descriptor of a file to map in place of the device: the file has at each offset
// what the driver maps at that offset, and the network polls the file for doorbells. The descriptor
// belongs to Opened, until Close. It is -1 if the driver has no such file; then Mmap does the
// mapping.
func (o *Opened) Pages() int { return o.f.drv.pages() }

// Broken returns the rules of the device's interface that programs have broken, up to a fixed
// number: accesses that a real device would misinterpret or miss. A test should fail if there are
// any.
func (k *Kernel) Broken() []string {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return append([]string(nil), k.broken...)
}

// SetLog installs a function that receives the text of each broken rule, and of each refusal with
// its reason. It is called with the network's lock held: it must not call the network. nil removes
// it.
func (n *Fabric) SetLog(f func(text string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = f
}

// sealedFile makes a file for Pages. The seal prevents a program from shrinking the file, which
// would remove memory that this process has mapped.
func sealedFile(size int64) (int, error) {
	fd, err := unix.MemfdCreate("verbstest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Process is a process that opens devices and may die with all of them open. The zero value has
// none open. It must not be used concurrently.
type Process struct{ files []*file }

// Open opens a device for the process, as Kernel.Open.
func (p *Process) Open(k *Kernel) uverbs.File {
	f := k.open()
	p.files = append(p.files, f)
	return uverbs.Traced(f)
}

// Kill ends the process: its queue pairs and other objects vanish without events and without
// completions. Later calls fail with EIO.
func (p *Process) Kill() {
	for _, f := range p.files {
		f.kill()
	}
	p.files = nil
}

func (f *file) kill() {
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if !f.closed {
		f.dead = true
		f.updateQuiet()
		f.destroyAll()
	}
}
