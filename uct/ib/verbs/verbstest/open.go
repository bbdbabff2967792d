//go:build linux

package verbstest

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// What runs a program on the devices needs: see Opened.

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

// Pages is a descriptor of a file to map in place of the device: what a driver has
// mapped at an offset is in it at that offset, and the network looks for doorbells there.
// It is Opened's, until Close. It is -1 if the driver has nothing like that; then Mmap is
// what maps.
func (o *Opened) Pages() int { return o.f.drv.pages() }

// Broken are rules of the device's interface that programs have broken, as far as there
// is room for them: what a real device would take for something else, or not notice. A
// test fails if there are any.
func (k *Kernel) Broken() []string {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return append([]string(nil), k.broken...)
}

// SetLog has f called with each broken rule and with what is refused and why, in the
// middle of things: it must not call anything of the network. nil: no longer.
func (n *Fabric) SetLog(f func(text string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = f
}

// sealedFile is a file for Pages. A program cannot make it shorter, which would take
// memory from under us.
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
