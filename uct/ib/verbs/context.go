//go:build linux

package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Context is an open device. Any goroutine may use it.
type Context struct {
	file        File
	provider    *provider.Provider
	drv         provider.Context
	lacks       lackings
	events      *eventFD
	features    uverbs.Features
	compVectors uint32
	coreSupport uint64

	mu       sync.Mutex
	quiet    sync.Cond         // on mu: ending became 0
	ending   int               // under mu: calls that destroy objects
	closed   bool              // under mu
	children map[closer]int    // under mu: in which turn Close closes them
	byID     map[uint64]closer // under mu: what events name
	nextID   uint64            // under mu
}

// closer is an object of a Context.
type closer interface {
	Close() error
	abandon() // gives back what is here of an object that the kernel has ended
}

// The turns in which Context.Close closes its children: what uses others first.
// Memory is among the last: the kernel keeps all it could not close until the
// device's descriptor and the last mapping of a queue are gone.
const (
	turnMW = iota
	turnQP
	turnUsed // SRQs, AHs, CQs
	turnMR
	turnBase // PDs, channels
	turns
)

// opened keeps every open Context, and with it the memory its device may write to,
// from the garbage collector.
var opened sync.Map // of *Context

// Open opens the device; ibv_open_device.
func (d *Device) Open() (*Context, error) {
	if d.Uverbs == "" {
		return nil, fmt.Errorf("verbs: %s has no node to open: the kernel's module ib_uverbs is not loaded, or does not know the device: %w",
			d.Name, ucs.ErrNoDevice)
	}
	f, err := uverbs.Open(d.Path, d.Uverbs, d.Rdev)
	if err != nil {
		return nil, err
	}
	return NewContext(f, d.ABIVersion)
}

// NewContext makes a Context of a device that is already open and closes it with the
// Context, or if NewContext fails. abiVersion is that of the driver, 0 if it is not known.
func NewContext(f File, abiVersion int) (*Context, error) {
	c := &Context{file: f, children: make(map[closer]int), byID: make(map[uint64]closer)}
	c.quiet.L = &c.mu
	if err := c.open(abiVersion); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	opened.Store(c, nil)
	return c, nil
}

func (c *Context) open(abiVersion int) (err error) {
	if c.provider, err = providerOf(c.file, abiVersion); err != nil {
		return err
	}
	if c.drv, err = c.provider.Open(provider.Device{File: c.file, Driver: c.provider.ID}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.drv.Detach()
		}
	}()
	in, out := c.drv.Data()
	var vectors, support [8]byte
	err = c.do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT).
		Out(abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, vectors[:4]).
		Out(abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, support[:]).
		DriverIn(in).DriverOut(out))
	if err != nil {
		return err
	}
	c.compVectors, c.coreSupport = native32(vectors[:]), native64(support[:])
	if err := c.drv.Attach(); err != nil {
		return err
	}
	c.lacks = askFeatures(c.Name(), c.provider.Name, c.drv)
	var fd uint32
	err = c.do(uverbs.NewCall(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC).
		NewFD(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, &fd))
	if err != nil {
		return err
	}
	c.events, err = newEventFD(int(fd), c.file.Name()+" events")
	return err
}

// do makes a call.
func (c *Context) do(call *uverbs.Call) error { return call.Do(c.file, c.provider.ID) }

// invoke makes a command.
func (c *Context) invoke(command uint32, in, out []byte) error {
	return c.do(uverbs.Invoke(command, in, out))
}

// Driver returns the name of the kernel's driver: rxe.
func (c *Context) Driver() string { return c.provider.Name }

// Name returns the name of the device's node: uverbs0.
func (c *Context) Name() string { return c.file.Name() }

// NumCompVectors returns the number of completion vectors that CreateCQ can choose from.
func (c *Context) NumCompVectors() int { return int(c.compVectors) }

// begin gives a new object a number for events and remembers it.
func (c *Context) begin(o closer, turn int) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, fmt.Errorf("verbs: %s is closed: %w", c.Name(), ucs.ErrInvalidParam)
	}
	c.nextID++
	c.children[o] = turn
	c.byID[c.nextID] = o
	return c.nextID, nil
}

// end forgets an object.
func (c *Context) end(o closer, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.children, o)
	delete(c.byID, id)
}

// noHandle is the handle of an object that is closed. The kernel gives the number
// it had to the next object, which a call for the closed one must not reach.
const noHandle = ^uint32(0)

// destroy ends an object by a call for its handle, and forgets both. Of several
// goroutines that do so at once one gets the handle, the others find the object closed:
// when the kernel has ended the object, the number may be another's.
func (c *Context) destroy(o closer, id uint64, handle *uint32, call func(handle uint32) *uverbs.Call) error {
	c.mu.Lock()
	h := *handle
	if h == noHandle {
		c.mu.Unlock()
		return errClosed
	}
	*handle = noHandle
	c.ending++
	c.mu.Unlock()

	err := c.do(call(h))
	if err == nil {
		o.abandon()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.children, o)
		delete(c.byID, id)
	} else {
		*handle = h // it is still there
	}
	if c.ending--; c.ending == 0 {
		c.quiet.Broadcast()
	}
	return err
}

// settle waits for the objects that other goroutines are closing.
func (c *Context) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ending > 0 {
		c.quiet.Wait()
	}
}

// object is what an event names, nil if it is gone.
func (c *Context) object(id uint64) closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// next is an object to be closed in a turn, nil if there is none.
func (c *Context) next(turn int) closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, t := range c.children {
		if t == turn {
			return o
		}
	}
	return nil
}

// Close closes all remaining objects of the device, then the device. The caller must ensure
// that no goroutine uses the objects, except to close them. A device that is gone is no
// error. A second Close does nothing, even while the first is running.
func (c *Context) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	var left []closer
	for turn := range turns {
		for o := c.next(turn); o != nil; o = c.next(turn) {
			if q, ok := o.(*QP); ok {
				q.leaveMcast()
			}
			err := o.Close()
			if errors.Is(err, errClosed) { // somebody else is at it
				c.settle()
				continue
			}
			if err != nil {
				// Closing the device ends it all the same. EIO is the answer to everything
				// when the device was taken away, and all objects with it.
				if uverbs.Errno(err) != syscall.EIO {
					errs = append(errs, err)
				}
				left = append(left, o)
				c.mu.Lock()
				delete(c.children, o)
				c.mu.Unlock()
			}
		}
	}
	errs = append(errs, c.events.close(), c.file.Close())
	for _, o := range left {
		o.abandon()
	}
	c.drv.Detach()
	opened.Delete(c)
	return errors.Join(errs...)
}

// ProbeDMABuf returns nil if the kernel supports PD.RegDMABufMR, else an error that names
// the required kernel. It asks the kernel once. The device's driver may still refuse a
// registration.
func (c *Context) ProbeDMABuf() error {
	return c.features.Probe(c.file, c.provider.ID, abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR)
}

// waitCanceled is the error of a call that ctx has ended.
func waitCanceled(ctx context.Context) error {
	status := ucs.ErrCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		status = ucs.ErrTimedOut
	}
	return fmt.Errorf("verbs: waiting for an event: %w: %w", ctx.Err(), status)
}
