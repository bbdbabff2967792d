//go:build linux

package mlx5

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// srq is a shared receive queue: a linked list of entries, which the device follows
// (providers/mlx5/srq.c). The goroutine that posts takes free entries at index head; goroutines
// that poll append completed entries at index tail. One entry of the list always stays free, so
// that the goroutine that posts and those that poll never access the same entry.
type srq struct {
	ctx      *context
	queue    segments
	requests []received
	shared
	request abi.Mlx5CreateSrq
	answer  abi.Mlx5CreateSrqResp
	mem     []byte
	rec     record
	live    bool // the queue is in ctx.srqs

	head   uint32 // index of the first free entry; owned by the goroutine that posts
	posted uint32 // number of requests posted; owned by the goroutine that posts
	open   bool

	_        [64]byte
	mu       sync.Mutex // held by the goroutines that poll and by Detach
	detached bool       // under mu: Detach was called
	tail     uint32     // index of the last free entry; stored under mu, loaded without it
}

func (c *context) NewSRQ(a *provider.SRQInit) (provider.SRQ, error) {
	l, err := c.limits.layOutShared(a)
	if err != nil {
		return nil, err
	}
	s := &srq{ctx: c, shared: l, requests: make([]received, l.entries), tail: l.entries - 1}
	if s.mem, err = mapQueue(int(l.entries) << l.shift); err != nil {
		return nil, err
	}
	if s.rec, err = c.records.get(); err != nil {
		s.Detach()
		return nil, err
	}
	s.queue = newSegments(s.mem, int(l.entries)<<l.shift)
	for i := range l.entries - 1 {
		s.link(i).Put(uint16(i + 1))
	}
	s.request = abi.Mlx5CreateSrq{BufAddr: addressOf(s.mem), DbAddr: addressOfRecord(s.rec)}
	a.MaxWR, a.MaxSGE = int(l.entries)-1, l.pieces
	return s, nil
}

// link returns the field of entry i that has the index of the next entry.
func (s *srq) link(i uint32) *abi.BE16 { return &s.queue.link(i << s.shift).NextWqeIndex }

func (s *srq) Data() (in, out []byte) { return abi.Bytes(&s.request), abi.Bytes(&s.answer) }

func (s *srq) Attach(m *provider.SRQMade) error {
	m.MaxWR, m.MaxSGE = int(s.entries)-1, s.pieces
	s.open = true
	s.ctx.mu.Lock()
	defer s.ctx.mu.Unlock()
	s.ctx.srqs.set(s.answer.Srqn, s)
	s.live = true
	return nil
}

func (s *srq) Detach() {
	c := s.ctx
	c.mu.Lock()
	if s.live {
		c.srqs.set(s.answer.Srqn, nil)
		s.live = false
	}
	c.mu.Unlock()
	s.mu.Lock()
	s.detached, s.queue, s.open = true, segments{}, false
	s.mu.Unlock()
	if s.rec != nil {
		c.records.put(s.rec)
		s.rec = nil
	}
	unmapQueue(s.mem)
	s.mem = nil
}

func (s *srq) PostRecv(wrs []provider.RecvWR) (n int, err error) {
	if !s.open {
		return 0, provider.ErrNoRQ
	}
	tail := atomic.LoadUint32(&s.tail)
	for n < len(wrs) && err == nil {
		wr := &wrs[n]
		if s.head == tail {
			err = provider.ErrQueueFull
		} else if _, err = provider.Length(wr.SGList, s.pieces); err == nil {
			i := s.head
			s.head = uint32(s.link(i).Get()) & (s.entries - 1)
			s.requests[i] = received{wr.ID, true}
			putSGEs(&s.queue, i<<s.shift+unit, wr.SGList, s.pieces)
			n++
		}
	}
	if n > 0 {
		s.posted += uint32(n)
		uverbs.RaceSent()
		toDevice()
		setRecord(s.rec, 0, s.posted&0xffff)
	}
	return n, err
}

// take frees entry i, whose request has completed, and returns the request's id; ok is false if no
// request is posted there. Any goroutine that polls a completion queue may call it.
func (s *srq) take(i uint32) (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.detached || i >= s.entries || !s.requests[i].posted {
		return 0, false
	}
	s.requests[i].posted = false
	s.link(s.tail).Put(uint16(i))
	word.StoreRelease32(&s.tail, i)
	return s.requests[i].id, true
}

// LimitData returns nil: the driver has no data for the call.
func (s *srq) LimitData() []byte { return nil }

// Resize is never called, because Lacks reports that FeatureResizeSRQ is missing.
func (s *srq) Resize(*int) (provider.Resizing, error) {
	return nil, fmt.Errorf("verbs: mlx5: resizing a shared receive queue: %w", ucs.ErrUnsupported)
}
