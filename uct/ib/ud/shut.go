//go:build linux

package ud

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy and closes
// nothing.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	if i.endpoints > 0 {
		return fmt.Errorf("ud: closing an interface with %d open endpoints: %w", i.endpoints, ucs.ErrBusy)
	}
	i.Worker.RemoveProgress(i)
	return i.release()
}

// release releases all resources of the interface.
func (i *iface) release() (err error) {
	i.closed = true
	i.alarm.stop()
	err = i.end()
	err = errors.Join(err, i.Iface.Close(), i.slots.close())
	if i.recvs.Len() > 0 {
		err = errors.Join(err, i.recvs.Close())
	}
	return err
}

// end destroys the queue pair, which ends all work of the device, and then all connections. Retired
// items are released without waiting for the device.
func (i *iface) end() (err error) {
	if i.dead == nil && i.flow != nil {
		i.flow.NotifyEnd()
		i.drain(func() bool { return i.sq.over(i.sq.signaled) })
	}
	if i.dead == nil {
		i.dead = ucs.ErrCanceled
	}
	if i.qp != nil {
		err = i.Domain.Closed(i.qp.Close())
		i.qp = nil
	}
	i.sq.drop()
	if i.flow != nil {
		i.flow.Close()
	}
	i.retired.release(i)
	return err
}
