//go:build linux

package tcp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// PutZcopy implements uct.Endpoint. The put completes when the peer has acknowledged that the bytes
// are in its memory, so PutZcopy never returns nil.
func (ep *endpoint) PutZcopy(iov []uct.IOV, raddr uint64, _ *uct.Rkey, comp *uct.Completion) error {
	a := &ep.iface.attr.Put
	if a.MaxZcopy == 0 {
		return ucs.ErrUnsupported
	}
	if len(iov) > a.MaxIOV {
		return fmt.Errorf("tcp: put of %d entries, the limit is %d: %w", len(iov), a.MaxIOV, ucs.ErrInvalidParam)
	}
	return ep.put(iov, raddr, comp)
}

// put sends a put. A put without bytes is a probe: the peer acknowledges it like any other.
func (ep *endpoint) put(iov []uct.IOV, raddr uint64, comp *uct.Completion) error {
	c, err := ep.ready()
	if err != nil {
		return err
	}
	b := c.room(hdrLen + putReqLen)
	if b == nil {
		c.iface.svc.markDirty(c)
		return ep.notReady()
	}
	total := uct.IOVLen(iov)
	sn := c.putSN + 1
	n := len(appendPutHeader(b, putHeader{addr: raddr, length: uint64(total), sn: sn})) - len(b)
	c.queued(n)
	if !c.gather(iov, total) && c.state == stateClosed {
		return ep.err
	}
	c.putSN, c.putEnd = sn, c.accepted
	c.probe = false
	c.waitAck(comp)
	return ucs.InProgress
}

// Flush implements uct.Endpoint. A local flush completes when the kernel has all bytes. A remote
// flush completes when the peer's transport has handled them, which the acknowledgement of an empty
// put shows (uct_tcp_ep_flush).
func (ep *endpoint) Flush(flags uct.FlushFlags, comp *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		ep.cancel()
		return nil
	}
	c, err := ep.ready()
	if err != nil {
		if c = ep.conn; flags&uct.FlushRemote != 0 || ep.err != nil || c == nil ||
			c.state != stateConnected || !ep.pending.Empty() {
			return err
		}
	}
	if flags&uct.FlushRemote == 0 {
		if !c.blocked && !c.write() && c.state == stateClosed {
			return ep.err
		}
		return c.afterWrites(comp)
	}
	if c.probe {
		return ep.put(nil, 0, comp)
	}
	if c.putSN == c.ackSN {
		return c.afterWrites(comp)
	}
	c.waitAck(comp)
	return ucs.InProgress
}

// cancel completes all operations with ErrCanceled and makes the endpoint unusable.
func (ep *endpoint) cancel() {
	if ep.err != nil {
		return
	}
	ep.err = errCanceled
	if c := ep.conn; c != nil && (c.zc.left != 0 || !c.isUp()) {
		// Either a message would be cut off in the middle, or the connection is not up and
		// nothing needs it any more.
		ep.disconnect()
	}
	ep.endOps(ucs.ErrCanceled)
}

var errCanceled = fmt.Errorf("tcp: endpoint was flushed with cancel: %w", ucs.ErrCanceled)
