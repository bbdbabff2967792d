//go:build linux

package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// EventChannel delivers the events of IDs; struct rdma_event_channel. The caller must keep a
// reference to the channel, or to one of its IDs or Conns, as long as the connections are to last:
// like a file, a channel is closed when it becomes unreachable.
type EventChannel struct {
	file    File
	raw     syscall.RawConn
	reading chan struct{} // holds one token while a goroutine waits
	// reads is held from reading an event from the kernel to its delivery, so that no ID migrates
	// in between.
	reads sync.RWMutex

	mu     sync.Mutex
	closed bool                  // under mu
	ids    map[uint64]*ID        // under mu: IDs by the numbers in events
	groups map[uint64]*Multicast // under mu
}

// lastUID is the number that an ID or membership was last given to identify it in events. The
// number is never 0, which the kernel uses for requests that have not been accepted, and never
// reused, in any channel, because IDs move between channels.
var lastUID atomic.Uint64

// NewEventChannel opens the kernel's connection manager; rdma_create_event_channel.
func NewEventChannel() (*EventChannel, error) {
	f, err := ucm.Open()
	if err != nil {
		return nil, err
	}
	return NewChannel(f)
}

// NewChannel makes a channel from an open connection manager and closes it with the
// channel, or if NewChannel fails.
func NewChannel(f File) (*EventChannel, error) {
	raw, err := f.Poll().SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rdmacm: %s: %w: %w", f.Name(), err, ucs.ErrIO), f.Close())
	}
	return &EventChannel{file: f, raw: raw, reading: make(chan struct{}, 1), ids: make(map[uint64]*ID),
		groups: make(map[uint64]*Multicast)}, nil
}

// FD returns the descriptor that becomes readable with an event, -1 once the channel is
// closed. The channel owns it.
func (c *EventChannel) FD() int {
	fd := -1
	c.raw.Control(func(n uintptr) { fd = int(n) })
	return fd
}

// do executes a command.
func (c *EventChannel) do(cmd uint32, in, data []byte) error {
	if e := c.file.Command(cmd, in, data); e != 0 {
		return &ucm.Error{Call: cmabi.Lookup(cmd).Name, Errno: e}
	}
	return nil
}

// PollEvent returns the next event without waiting, ucs.ErrNoMessage if there is
// none.
func (c *EventChannel) PollEvent() (*Event, error) {
	c.reads.RLock()
	defer c.reads.RUnlock()
	for {
		var r cmabi.EventResp
		switch e := c.file.Command(cmabi.RDMA_USER_CM_CMD_GET_EVENT, cmabi.Bytes(&cmabi.GetEvent{}), cmabi.Bytes(&r)); e {
		case 0:
		case syscall.EAGAIN:
			return nil, errNone
		case syscall.EBADF:
			return nil, errClosed
		default:
			return nil, &ucm.Error{Call: "GET_EVENT", Errno: e}
		}
		if e := c.deliver(&r); e != nil {
			return e, nil
		}
	}
}

// GetEvent waits for the next event; rdma_get_cm_event. It fails with
// ucs.ErrCanceled or ucs.ErrTimedOut when ctx ends, and with ucs.ErrCanceled when
// the channel is closed.
func (c *EventChannel) GetEvent(ctx context.Context) (*Event, error) {
	if ctx.Err() != nil {
		return nil, canceled(ctx)
	}
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return nil, canceled(ctx)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.wake()
		close(over)
	})
	defer func() {
		if !stop() {
			<-over
			c.file.Poll().SetReadDeadline(time.Time{})
		}
	}()
	for {
		var e *Event
		var err error
		waited := c.raw.Read(func(uintptr) bool {
			e, err = c.PollEvent()
			return !errors.Is(err, ucs.ErrNoMessage)
		})
		switch {
		case e != nil:
			return e, nil
		case errors.Is(waited, os.ErrDeadlineExceeded):
			// Woken by wake or by the end of ctx. ctx is checked only after the deadline is reset:
			// otherwise its end would be missed if it sets the deadline in between.
			c.file.Poll().SetReadDeadline(time.Time{})
			if ctx.Err() != nil {
				return nil, canceled(ctx)
			}
		case waited != nil && c.isClosed():
			return nil, errClosed
		case waited != nil:
			return nil, fmt.Errorf("rdmacm: %w: %w", waited, ucs.ErrIO)
		default:
			return nil, err
		}
	}
}

func (c *EventChannel) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// wake makes a waiting GetEvent poll again.
func (c *EventChannel) wake() { c.file.Poll().SetReadDeadline(time.Unix(1, 0)) } // long ago

// deliver finds the object of an event and returns the event, or nil if the object is closed.
// Because of this check an ID can be closed before its events are acknowledged; in C the event
// would then point to freed memory.
func (c *EventChannel) deliver(r *cmabi.EventResp) *Event {
	if r.Event == cmabi.RDMA_CM_EVENT_MULTICAST_JOIN || r.Event == cmabi.RDMA_CM_EVENT_MULTICAST_ERROR {
		c.mu.Lock()
		m := c.groups[r.Uid]
		c.mu.Unlock()
		if m == nil {
			return nil
		}
		e := event(r, verbs.UD)
		e.ID, e.Multicast = m.id, m
		if e.Type == EventMulticastJoin {
			m.joined(&e.UD)
		}
		return e
	}
	id := c.find(r)
	if r.Event == cmabi.RDMA_CM_EVENT_CONNECT_REQUEST {
		return c.request(id, r)
	}
	if id == nil {
		return nil
	}
	e := event(r, id.typ)
	e.ID = id
	return e
}

// find returns the ID of an event, nil if it is closed. Kernels before 5.4 may report an
// established connection without the ID's number.
func (c *EventChannel) find(r *cmabi.EventResp) *ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Uid != 0 || r.Event != cmabi.RDMA_CM_EVENT_ESTABLISHED {
		return c.ids[r.Uid]
	}
	for _, id := range c.ids {
		if id.handle == r.Id {
			return id
		}
	}
	return nil
}

// request makes the ID of a connecting peer. If the listener is closed, the peer is refused.
func (c *EventChannel) request(listener *ID, r *cmabi.EventResp) *Event {
	if listener == nil {
		c.destroy(r.Id)
		return nil
	}
	id := &ID{ch: c, uid: lastUID.Add(1), handle: r.Id, ps: listener.ps, typ: listener.typ}
	e := event(r, id.typ)
	e.ID, e.Listener = id, listener
	id.resources, id.depth = e.Conn.ResponderResources, e.Conn.InitiatorDepth
	if !c.adopt(id, nil) {
		return nil // the kernel has closed the ID with the channel
	}
	return e
}

// adopt makes the channel deliver the events of an ID and its memberships. It reports false if the
// channel is closed.
func (c *EventChannel) adopt(id *ID, groups []*Multicast) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.ids[id.uid] = id
	for _, m := range groups {
		c.groups[m.uid] = m
	}
	return true
}

// memberships returns the multicast memberships of an ID.
func (c *EventChannel) memberships(id *ID) (list []*Multicast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.groups {
		if m.id == id {
			list = append(list, m)
		}
	}
	return list
}

// forget ends the delivery of events of an ID.
func (c *EventChannel) forget(id *ID) {
	groups := c.memberships(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ids, id.uid)
	for _, m := range groups {
		delete(c.groups, m.uid)
	}
}

// destroy destroys a kernel ID. The number of events that the kernel has reported for it is
// irrelevant: see deliver.
func (c *EventChannel) destroy(handle uint32) error {
	var resp cmabi.DestroyIdResp
	return c.do(cmabi.RDMA_USER_CM_CMD_DESTROY_ID, cmabi.Bytes(&cmabi.DestroyId{Id: handle}), cmabi.Bytes(&resp))
}

// Close closes the channel and all its IDs; rdma_destroy_event_channel. GetEvent
// then fails.
func (c *EventChannel) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	clear(c.ids)
	clear(c.groups)
	c.mu.Unlock()
	return c.file.Close()
}
