//go:build linux

package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Context is an open device. Any goroutine may use it.
type Context struct {
	file        File
	provider    *provider.Provider
	drv         provider.Context
	lacks       missingFeatures
	events      *eventFD
	features    uverbs.Features
	compVectors uint32
	coreSupport uint64

	mu           sync.Mutex
	destroysDone sync.Cond         // with mu: signals that ending has become 0
	destroying   int               // under mu: number of destroy calls in progress
	closed       bool              // under mu
	children     map[closer]int    // under mu: open objects, with the phase of Close that closes them
	byID         map[uint64]closer // under mu: open objects by the id in their events
	nextID       uint64            // under mu: the last id that begin has returned
}

// closer is an object that belongs to a Context, for example a QP.
type closer interface {
	Close() error
	abandon() // releases the resources of this process after the kernel has destroyed the object
}

// Phases of Context.Close, in order. Each closes the objects of some types, so that an object is
// closed before the objects that it uses. Memory regions are among the last, because an object that
// the kernel could not destroy exists until the device's descriptor and the last mapping of a queue
// are closed.
const (
	phaseMW = iota
	phaseQP
	phaseUsed // SRQs, AHs, CQs
	phaseMR
	phaseBase // PDs, channels
	phases
)

// opened holds every open Context. It keeps the Context, and the memory that its device may write
// to, from the garbage collector.
var opened sync.Map // keys are of type *Context

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

// NewContext makes a Context for f, a device that is already open. The Context owns f; if
// NewContext fails, it closes f. abiVersion is the ABI version of the driver, 0 if it is not known.
func NewContext(f File, abiVersion int) (*Context, error) {
	c := &Context{file: f, children: make(map[closer]int), byID: make(map[uint64]closer)}
	c.destroysDone.L = &c.mu
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

// do makes a call to the kernel.
func (c *Context) do(call *uverbs.Call) error { return call.Do(c.file, c.provider.ID) }

// invoke executes a command of the write(2) interface through the ioctl method INVOKE_WRITE. in is
// the request; out receives the response.
func (c *Context) invoke(command uint32, in, out []byte) error {
	return c.do(uverbs.Invoke(command, in, out))
}

// Driver returns the name of the kernel's driver, for example rxe.
func (c *Context) Driver() string { return c.provider.Name }

// Name returns the name of the device's node, for example uverbs0.
func (c *Context) Name() string { return c.file.Name() }

// NumCompVectors returns the number of completion vectors that CreateCQ can choose from.
func (c *Context) NumCompVectors() int { return int(c.compVectors) }

// register registers a new object. turn is the phase in which Context.Close closes it. begin returns
// the id that the kernel puts into events of the object.
func (c *Context) register(o closer, turn int) (uint64, error) {
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

// unregister removes the registration of an object.
func (c *Context) unregister(o closer, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.children, o)
	delete(c.byID, id)
}

// noHandle replaces the handle of a closed object. The kernel may reuse the old handle for a later
// object, which a call for the closed object must not affect.
const noHandle = ^uint32(0)

// destroy destroys object o in the kernel and removes its registration. The parameter call makes
// the uverbs.Call for a handle. If the kernel call fails, the object still exists. If several
// goroutines destroy an object at once, one makes the kernel call and the others get errClosed,
// because a destroyed object's handle may belong to another object.
func (c *Context) destroy(o closer, id uint64, handle *uint32, call func(handle uint32) *uverbs.Call) error {
	c.mu.Lock()
	h := *handle
	if h == noHandle {
		c.mu.Unlock()
		return errClosed
	}
	*handle = noHandle
	c.destroying++
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
		*handle = h // the object still exists
	}
	if c.destroying--; c.destroying == 0 {
		c.destroysDone.Broadcast()
	}
	return err
}

// waitDestroys waits until no other goroutine is in a destroy call.
func (c *Context) waitDestroys() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.destroying > 0 {
		c.destroysDone.Wait()
	}
}

// object returns the object with the given id, nil if it is closed.
func (c *Context) object(id uint64) closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// nextInPhase returns an open object that Close closes in phase turn, nil if none is left.
func (c *Context) nextInPhase(turn int) closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, t := range c.children {
		if t == turn {
			return o
		}
	}
	return nil
}

// Close closes all remaining objects of the device, then the device. The caller must ensure that no
// goroutine uses the objects, except to close them. It is not an error if the device was removed. A
// second Close does nothing, even while the first is running.
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
	for turn := range phases {
		for o := c.nextInPhase(turn); o != nil; o = c.nextInPhase(turn) {
			if q, ok := o.(*QP); ok {
				q.detachAllMcast()
			}
			err := o.Close()
			if errors.Is(err, errClosed) { // another goroutine closes it
				c.waitDestroys()
				continue
			}
			if err != nil {
				// Closing the device destroys the object in any case. If the device was removed,
				// its objects are gone, too, and every call fails with EIO.
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

// ProbeDMABuf returns nil if the kernel supports PD.RegDMABufMR, else an error that names the
// required kernel version. It asks the kernel only once. The device's driver may still refuse a
// registration.
func (c *Context) ProbeDMABuf() error {
	return c.features.Probe(c.file, c.provider.ID, abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR)
}

// waitCanceled returns the error of a wait that ended because ctx is done: ucs.ErrTimedOut after
// its deadline, else ucs.ErrCanceled.
func waitCanceled(ctx context.Context) error {
	status := ucs.ErrCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		status = ucs.ErrTimedOut
	}
	return fmt.Errorf("verbs: waiting for an event: %w: %w", ctx.Err(), status)
}
