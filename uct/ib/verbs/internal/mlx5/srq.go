//go:build linux

package mlx5

import (
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// srq is a shared receive queue: entries in a list, each with the number of the next,
// which the device follows (providers/mlx5/srq.c). Who posts takes free ones at head, who
// polls puts those that have completed behind tail. One is always left between the two,
// so neither touches what is the other's.
type srq struct {
	ctx      *context
	queue    segments
	requests []received
	shared
	request abi.Mlx5CreateSrq
	answer  abi.Mlx5CreateSrqResp
	mem     []byte
	rec     record
	live    bool // in the table

	head   uint32 // the first free entry; of who posts
	posted uint32 // so far; of who posts
	open   bool

	_    [64]byte
	mu   sync.Mutex // among those who poll
	gone bool       // under mu
	tail uint32     // under mu, and loaded by who posts: the last free entry
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

// link is the number of the entry behind one.
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
	s.gone, s.queue, s.open = true, segments{}, false
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
			putPieces(&s.queue, i<<s.shift+unit, wr.SGList, s.pieces)
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

// take frees the entry of a request that has completed, and returns its id; ok is false
// if there is none. It is for who polls, whichever queue.
func (s *srq) take(i uint32) (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || i >= s.entries || !s.requests[i].posted {
		return 0, false
	}
	s.requests[i].posted = false
	s.link(s.tail).Put(uint16(i))
	word.StoreRelease32(&s.tail, i)
	return s.requests[i].id, true
}

// LimitData is nothing.
func (s *srq) LimitData() []byte { return nil }

// Resize is not asked for: the device lacks it.
func (s *srq) Resize(*int) (provider.Resizing, error) { return nil, provider.ErrNoRQ }
