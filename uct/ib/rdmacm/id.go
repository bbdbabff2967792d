//go:build linux

package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// ID is one side of a connection, established or not, or a listener; struct rdma_cm_id. Its
// methods start operations and do not wait for the peer; events on its channel report the
// results.
type ID struct {
	uid    uint64
	handle uint32
	ps     PortSpace
	typ    verbs.QPType
	// The limits that the connecting peer has sent in its request.
	resources, depth uint8

	// Context belongs to the caller. It is nil in the ID of an EventConnectRequest.
	Context any

	mu     sync.Mutex
	ch     *EventChannel // under mu
	closed bool          // under mu
}

// CreateID makes an ID; rdma_create_id. typ is the type of queue pairs. It is needed in
// PortSpaceIB; the other port spaces have one type each, and typ may be 0 or that type.
func (c *EventChannel) CreateID(ps PortSpace, typ verbs.QPType) (*ID, error) {
	want := verbs.RC
	if ps == PortSpaceUDP || ps == PortSpaceIPoIB {
		want = verbs.UD
	}
	if typ == 0 {
		typ = want
	}
	if typ != want && ps != PortSpaceIB {
		return nil, fmt.Errorf("rdmacm: queue pairs of type %v in port space %v: %w", typ, ps, ucs.ErrInvalidParam)
	}
	id := &ID{ch: c, uid: lastUID.Add(1), ps: ps, typ: typ}
	req := cmabi.CreateId{Uid: id.uid, Ps: uint16(ps), QpType: uint8(typ)}
	var resp cmabi.CreateIdResp
	if err := c.do(cmabi.RDMA_USER_CM_CMD_CREATE_ID, cmabi.Bytes(&req), cmabi.Bytes(&resp)); err != nil {
		return nil, err
	}
	id.handle = resp.Id
	if !c.adopt(id, nil) {
		return nil, errClosed
	}
	return id, nil
}

// PortSpace returns the port space of the ID.
func (id *ID) PortSpace() PortSpace { return id.ps }

// QPType returns the type of queue pairs that the ID is for.
func (id *ID) QPType() verbs.QPType { return id.typ }

// Channel returns the channel that delivers the events of the ID.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// do executes a command for the ID.
func (id *ID) do(cmd uint32, in, data []byte) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closed {
		return errClosed
	}
	return id.ch.do(cmd, in, data)
}

// hint adds the probable cause to an error with this errno.
func hint(err error, errno syscall.Errno, text string) error {
	var e *ucm.Error
	if errors.As(err, &e) && e.Errno == errno && e.Hint == "" {
		e.Hint = text
	}
	return err
}

// BindAddr gives the ID a local address and a port; rdma_bind_addr. Port 0 means any free port. An
// address of a device chooses the device.
func (id *ID) BindAddr(addr netip.AddrPort) error {
	req := cmabi.Bind{Id: id.handle}
	var err error
	if req.AddrSize, err = putSockaddr(&req.Addr, addr); err != nil {
		return err
	}
	err = id.do(cmabi.RDMA_USER_CM_CMD_BIND, cmabi.Bytes(&req), nil)
	err = hint(err, syscall.EADDRNOTAVAIL, "no RDMA device has this address, or the port is in use at another address")
	return hint(err, syscall.ENODEV, "no RDMA device has this address")
}

// ResolveAddr finds the device for a destination; rdma_resolve_addr. src is the local
// address, or not valid. EventAddrResolved or EventAddrError follows, within the timeout.
// Addresses of the loopback interface lead to no soft-RoCE device, not even to one on that
// interface.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	req := cmabi.ResolveAddr{Id: id.handle, TimeoutMs: milliseconds(timeout)}
	var err error
	if req.SrcSize, err = putSockaddr(&req.SrcAddr, src); err != nil {
		return err
	}
	if req.DstSize, err = putSockaddr(&req.DstAddr, dst); err != nil {
		return err
	}
	err = id.do(cmabi.RDMA_USER_CM_CMD_RESOLVE_ADDR, cmabi.Bytes(&req), nil)
	return hint(err, syscall.ENODEV, "no RDMA device on the route to the address")
}

// ResolveRoute finds the route to the resolved address; rdma_resolve_route.
// EventRouteResolved or EventRouteError follows, within the timeout.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	req := cmabi.ResolveRoute{Id: id.handle, TimeoutMs: milliseconds(timeout)}
	return id.do(cmabi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, cmabi.Bytes(&req), nil)
}

// milliseconds rounds up, so that a short timeout does not become 0.
func milliseconds(d time.Duration) uint32 {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return uint32(min(max(ms, 0), 1<<31-1))
}

// Listen listens for peers on the bound address; rdma_listen. Each peer causes an
// EventConnectRequest. At most backlog of these events may be unread; further peers are refused. A
// backlog of 0 means the kernel's limit, which is 1024 unless changed.
func (id *ID) Listen(backlog int) error {
	req := cmabi.Listen{Id: id.handle, Backlog: uint32(max(backlog, 0))}
	return id.do(cmabi.RDMA_USER_CM_CMD_LISTEN, cmabi.Bytes(&req), nil)
}

// Migrate moves the ID and its events to another channel; rdma_migrate_id. Each event is delivered
// on one of the two channels. A GetEvent that waits on the new channel returns a moved event. A
// goroutine that waits for the FD of that channel is not woken by the kernel, and has to poll.
func (id *ID) Migrate(to *EventChannel) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closed {
		return errClosed
	}
	from := id.ch
	if from == to {
		return nil
	}
	if !to.adopt(id, from.memberships(id)) { // before the first event can arrive there
		return errClosed
	}
	err := errClosed
	// The old channel stays open during the call: otherwise its descriptor could be reused for
	// another channel, and the ID's number could be that of an ID there.
	from.raw.Control(func(fd uintptr) {
		from.reads.Lock()
		defer from.reads.Unlock()
		var resp cmabi.MigrateResp
		req := cmabi.MigrateId{Id: id.handle, Fd: uint32(fd)}
		if err = to.do(cmabi.RDMA_USER_CM_CMD_MIGRATE_ID, cmabi.Bytes(&req), cmabi.Bytes(&resp)); err == nil {
			from.forget(id)
		}
	})
	if err != nil {
		to.forget(id)
		return err
	}
	id.ch = to
	to.wake() // the kernel does not signal events that have moved
	return nil
}

// Close ends the ID: it stops listening, refuses a request, or leaves a connection and
// notifies the peer; rdma_destroy_id. No event of the ID is delivered any more.
func (id *ID) Close() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closed {
		return nil
	}
	id.closed = true
	id.ch.forget(id)
	err := id.ch.destroy(id.handle)
	if ucm.Errno(err) == syscall.EBADF {
		return nil // the kernel has closed the ID with the channel
	}
	return err
}
