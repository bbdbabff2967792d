package ucttest

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Message is a received active message.
type Message struct {
	ID   uct.AMID
	Data []byte
}

// Collector keeps copies of received active messages, in order.
type Collector struct {
	Messages []Message
}

// Handler returns a handler that collects messages under the given id.
func (c *Collector) Handler(id uct.AMID) uct.AMHandler {
	return func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		c.Messages = append(c.Messages, Message{id, append([]byte(nil), data...)})
		return nil
	}
}

// Collect creates a collector of the messages that h receives for ids.
func (h *Host) Collect(t testing.TB, ids ...uct.AMID) *Collector {
	t.Helper()
	c := new(Collector)
	for _, id := range ids {
		h.Handle(t, id, c.Handler(id))
	}
	return c
}

// Len returns the number of messages collected.
func (c *Collector) Len() int { return len(c.Messages) }

// Wait progresses the hosts until n messages have been collected.
func (c *Collector) Wait(t testing.TB, n int, hosts ...*Host) {
	t.Helper()
	if !Eventually(func() bool { return len(c.Messages) >= n }, hosts...) {
		t.Fatalf("%d messages arrived, want %d", len(c.Messages), n)
	}
}

// Take removes and returns the collected messages.
func (c *Collector) Take() []Message {
	list := c.Messages
	c.Messages = nil
	return list
}

// Packer is a uct.Packer that packs Data and counts its calls.
type Packer struct {
	Data  []byte
	Calls int
	Room  int // length of dst in the last call of Pack
}

// Pack implements uct.Packer.
func (p *Packer) Pack(dst []byte) int {
	p.Calls++
	p.Room = len(dst)
	return copy(dst, p.Data)
}

// Unpacker is a uct.Unpacker that copies the data and counts its calls.
type Unpacker struct {
	Data  []byte
	Calls int
}

// Unpack implements uct.Unpacker.
func (u *Unpacker) Unpack(src []byte) {
	u.Calls++
	u.Data = append(u.Data[:0], src...)
}

// Completion is a uct.Completion that counts the notifications of its owner. Pass &c.Completion
// to an operation.
type Completion struct {
	uct.Completion
	Fired int // number of notifications
}

// NewCompletion makes a completion of count operations.
func NewCompletion(count int) *Completion {
	c := &Completion{Completion: uct.Completion{Count: count}}
	c.Owner = c
	return c
}

// Completed implements uct.CompletionOwner.
func (c *Completion) Completed(*uct.Completion) { c.Fired++ }

// Finish waits for the only operation of c, which returned err. It checks that there is one
// notification if err is ucs.InProgress, and none otherwise. It fails the test if the operation
// failed.
func (c *Completion) Finish(t testing.TB, err error, hosts ...*Host) {
	t.Helper()
	if got := c.Result(t, err, hosts...); got != nil {
		t.Fatalf("operation failed: %v", got)
	}
}

// Result is like Finish, for operations that may fail: it returns the operation's error.
func (c *Completion) Result(t testing.TB, err error, hosts ...*Host) error {
	t.Helper()
	if err != ucs.InProgress {
		if c.Fired != 0 {
			t.Fatalf("operation returned %v, and its completion callback ran too", err)
		}
		return err
	}
	Until(t, "a completion", func() bool { return c.Fired > 0 }, hosts...)
	if c.Fired != 1 || c.Count != 0 {
		t.Fatalf("completion notified %d times, count %d", c.Fired, c.Count)
	}
	return c.Err
}

// Pending is a uct.Pending that runs a function when dispatched.
type Pending struct {
	uct.Pending
	Calls int
	Fn    func() error
}

// NewPending makes a pending request. Pass &p.Pending to PendingAdd.
func NewPending(fn func() error) *Pending {
	p := &Pending{Fn: fn}
	p.Owner = p
	return p
}

// Dispatch implements uct.PendingOwner.
func (p *Pending) Dispatch(*uct.Pending) error {
	p.Calls++
	return p.Fn()
}

// WantStatus fails the test unless err matches status.
func WantStatus(t testing.TB, what string, err error, status ucs.Status) {
	t.Helper()
	if !errors.Is(err, status) {
		t.Errorf("%s: error %v, want %v", what, err, status)
	}
}

// sequence returns the number at the start of a message, see Sender.Number.
func sequence(data []byte) uint64 {
	if len(data) < 8 {
		return ^uint64(0)
	}
	return binary.LittleEndian.Uint64(data)
}
