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

	"github.com/ucx-go/ucx/internal/ib/cmabi"
	"github.com/ucx-go/ucx/internal/ib/ucm"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// EventChannel delivers the events of IDs; struct rdma_event_channel. The caller must keep
// a reference to it, or to an ID or Conn of it, as long as its connections are to last:
// like a file it is closed when it becomes unreachable.
type EventChannel struct {
	file    File
	raw     syscall.RawConn
	reading chan struct{} // holds one token while somebody waits
	// reads is held for reading from the kernel's answer to the delivery of an event,
	// for no ID to move away in between.
	reads sync.RWMutex

	mu     sync.Mutex
	closed bool                  // under mu
	ids    map[uint64]*ID        // under mu: what events name
	groups map[uint64]*Multicast // under mu
}

// lastUID is the number that events were last given to name something: never 0,
// which the kernel has for what nobody has accepted, and never used again, over all
// channels, for IDs move from one to another.
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

// do makes a command.
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
			// Woken to look again, or because ctx has ended: asked only now, or its
			// end would be missed when the deadline it sets is taken away.
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

// wake makes a GetEvent that waits look again.
func (c *EventChannel) wake() { c.file.Poll().SetReadDeadline(time.Unix(1, 0)) } // long ago

// deliver finds what an event is about. It is nil if that has been closed: here is
// why an ID need not wait for its events to be acknowledged before it is closed, as
// in C, where the event would point to what is freed.
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

// find is the ID of an event, nil if it is closed. Kernels before 5.4 could tell
// that a connection is established without the number we have given.
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

// request makes the ID of one who connects. If nobody listens any more, it is
// refused.
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
		return nil // the kernel has closed it with the channel
	}
	return e
}

// adopt lets events of an ID and its memberships be delivered here. It reports false
// if the channel is closed.
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

// memberships are those of an ID.
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

// destroy ends something of the kernel. How many events it has told of does not
// matter: see deliver.
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
