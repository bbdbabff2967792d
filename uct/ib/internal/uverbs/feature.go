//go:build linux

package uverbs

import (
	"errors"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Features caches which methods the kernel supports. The zero value is empty. Any goroutine may use
// it.
type Features struct {
	mu    sync.Mutex
	known map[*abi.MethodSpec]error // under mu
}

// Probe returns nil if the kernel behind f supports a method for a device of the given driver, else
// an error that names the kernel version it needs. The result is cached, except errors that leave
// the question open.
func (p *Features) Probe(f File, driver uint32, object, method uint16) error {
	c := NewCall(object, method)
	if c.err != nil {
		return c.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err, ok := p.known[c.spec]; ok {
		return err
	}
	if !c.spec.Probeable() {
		c.fail(0, "cannot be probed without side effects")
		return c.err
	}
	var err error
	frame := c.frame(driver)
	frame.pin(&c.pinner)
	e := f.Ioctl(frame)
	c.pinner.Unpin()
	switch e {
	case 0, syscall.EINVAL:
	case syscall.EPROTONOSUPPORT, syscall.ENOTTY:
		err = c.error(f, e)
	default:
		return c.error(f, e)
	}
	if p.known == nil {
		p.known = make(map[*abi.MethodSpec]error)
	}
	p.known[c.spec] = err
	return err
}

// Errno returns the errno in the chain of an error, 0 if there is none.
func Errno(err error) syscall.Errno {
	var e *Error
	if errors.As(err, &e) {
		return e.Errno
	}
	return 0
}
