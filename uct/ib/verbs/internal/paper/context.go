//go:build linux

package paper

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

func init() {
	provider.Register(&provider.Provider{Name: "paper", ID: ID, MinABI: 1, MaxABI: 1, Open: open})
}

// context is an open device.
type context struct {
	dev    provider.Device
	answer [answerSize]byte // of GET_CONTEXT: what the device lacks, where its page is and how large
	page   []byte
	qps    sync.Map // of *qp by QPN: those that are alive
}

func open(d provider.Device) (provider.Context, error) { return &context{dev: d}, nil }

func (c *context) Data() (in, out []byte) { return []byte("paper 1."), c.answer[:] }

func (c *context) Attach() (err error) {
	at, n := order.Uint64(c.answer[8:]), order.Uint32(c.answer[16:])
	if n != pageSize {
		return fmt.Errorf("verbs: %s: a page of %d bytes: %w", c.dev.Name(), n, ucs.ErrIO)
	}
	c.page, err = c.dev.Map(at, int(n))
	return err
}

func (c *context) Detach() {
	if c.page != nil {
		c.dev.File.Munmap(c.page)
		c.page = nil
	}
}

func (c *context) Lacks(f provider.Feature) string {
	if order.Uint32(c.answer[:])>>f&1 != 0 {
		return "nobody has drawn it"
	}
	return ""
}

var live atomic.Int64

// Queues counts the queues there are, of all devices.
func Queues() int { return int(live.Load()) }

// newQueue maps memory for at least n blocks.
func newQueue(n int) (queue, error) {
	q := queue{n: 1 << bits.Len(uint(max(n, 1)-1))}
	var err error
	if q.mem, err = arena.Map(int(q.n+1)*block, arena.Options{}); err == nil {
		live.Add(1)
	}
	return q, err
}

// name is what the kernel is told of a queue.
func (q *queue) name(b []byte) []byte {
	return order.AppendUint32(order.AppendUint64(b, addressOf(q.mem)), q.n)
}

func (q *queue) free() {
	if q.mem != nil {
		arena.Unmap(q.mem)
		live.Add(-1)
		*q = queue{}
	}
}

// ah is an address, which the device has given a number.
type ah struct {
	provider.NoDetach
	answer [answerSize]byte
}

func (c *context) NewAH(*abi.AhAttr) (provider.AH, error) { return &ah{}, nil }

func (a *ah) Data() (in, out []byte) { return nil, a.answer[:] }
func (a *ah) Attach() error          { return nil }
func (a *ah) number() uint32         { return order.Uint32(a.answer[:]) }
