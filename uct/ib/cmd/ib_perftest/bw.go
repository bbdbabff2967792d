//go:build linux

package main

import (
	"context"

	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// sender is the sending half of a bandwidth test: it keeps the send queue full.
type sender struct {
	s         *session
	size, n   int
	ring      ring
	wr        []verbs.SendWR
	sent      int
	completed int // completed requests, cqMod for each completion; may exceed n at the end
}

func (s *session) newSender(size int) *sender {
	return &sender{s: s, size: size, n: s.total(), ring: s.ringOf(size), wr: s.requests(size)}
}

// post posts as many requests as there is room for.
func (t *sender) post() error {
	s := t.s
	for t.sent < t.n && t.sent-t.completed+s.postList <= s.txDepth {
		if !s.noPeak {
			s.posted[t.sent] = ticks.Now()
		}
		if s.postList == 1 {
			signal(&t.wr[0], t.sent%s.cqMod == s.cqMod-1 || t.sent == t.n-1)
			if t.ring.slots > 1 {
				s.place(&t.wr[0], t.ring.at(t.sent), t.size)
			}
		}
		if _, err := s.qp.PostSend(t.wr); err != nil {
			return err
		}
		t.sent += s.postList
	}
	return nil
}

// took counts n completions and records their times.
func (t *sender) took(n int) {
	s := t.s
	for range n {
		t.completed += s.cqMod
		if !s.noPeak {
			s.done[min(t.completed, t.n)-1] = ticks.Now()
		}
	}
}

// bwSend sends the messages of one size at full rate; run_iter_bw, perftest_resources.c.
func (s *session) bwSend(ctx context.Context, size int) error {
	t := s.newSender(size)
	s.start()
	if s.noPeak {
		s.posted[0] = ticks.Now()
	}
	for spins := 1; t.sent < t.n || t.completed < t.n; spins++ {
		if err := t.post(); err != nil {
			return err
		}
		n, err := s.completions(ctx, s.sendCQ)
		if err != nil {
			return err
		}
		t.took(n)
		if s.duration > 0 {
			if err := s.count(n * s.cqMod); err != nil {
				return err
			}
		}
		if n > 0 {
			spins = 0
		} else if err := s.idle(ctx, spins); err != nil {
			return err
		}
	}
	if s.noPeak {
		s.done[0] = ticks.Now()
	}
	return nil
}

// receiver is the receiving half of a bandwidth test: it keeps the receive queue
// full.
type receiver struct {
	s        *session
	size, n  int
	ring     ring
	wr       []verbs.RecvWR
	posted   int
	received int
}

func (s *session) newReceiver(size int) *receiver {
	return &receiver{s: s, size: size, n: s.total(), ring: s.receives(size), posted: s.rxDepth,
		wr: []verbs.RecvWR{{SGList: make([]verbs.SGE, 1)}}}
}

// took counts n received messages and posts as many receives, unless enough are posted for all
// expected messages.
func (r *receiver) took(n int) error {
	r.received += n
	r.s.lastReceived = ticks.Now()
	for range n {
		if r.posted >= r.n {
			break
		}
		r.s.receive(r.wr[0].SGList, r.ring.at(r.posted), r.size)
		if _, err := r.s.qp.PostRecv(r.wr); err != nil {
			return err
		}
		r.posted++
	}
	return nil
}

// bwReceive receives the messages of bwSend; run_iter_bw_server.
func (s *session) bwReceive(ctx context.Context, size int) error {
	r := s.newReceiver(size)
	s.lastReceived = ticks.Now()
	defer func() { s.lastReceived = 0 }()
	for spins := 1; r.received < r.n; spins++ {
		n, err := s.completions(ctx, s.recvCQ)
		if err != nil {
			return err
		}
		if n > 0 {
			if r.received == 0 {
				s.start()
				s.posted[0] = ticks.Now()
			}
			if err := r.took(n); err != nil {
				return err
			}
		}
		if s.duration > 0 && r.received > 0 {
			if err := s.count(n); err != nil {
				return err
			}
		}
		if n > 0 {
			spins = 0
		} else if err := s.idle(ctx, spins); err != nil {
			return err
		}
	}
	s.done[0] = ticks.Now()
	return nil
}

// bwBoth sends and receives at the same time, like run_iter_bi. The server begins to send after the
// first message that it receives.
func (s *session) bwBoth(ctx context.Context, size int) error {
	t, r := s.newSender(size), s.newReceiver(size)
	s.lastReceived = ticks.Now()
	defer func() { s.lastReceived = 0 }()
	if s.noPeak {
		s.posted[0] = ticks.Now()
	}
	if s.peer.client {
		s.start()
	}
	for spins := 1; t.completed < t.n || r.received < r.n; spins++ {
		if s.peer.client || r.received > 0 {
			if err := t.post(); err != nil {
				return err
			}
		}
		received, err := s.completions(ctx, s.recvCQ)
		if err != nil {
			return err
		}
		if received > 0 {
			if r.received == 0 && !s.peer.client {
				s.start()
			}
			if err := r.took(received); err != nil {
				return err
			}
		}
		sent, err := s.completions(ctx, s.sendCQ)
		if err != nil {
			return err
		}
		t.took(sent)
		if s.duration > 0 {
			if err := s.count(received + sent*s.cqMod); err != nil {
				return err
			}
		}
		if received+sent > 0 {
			spins = 0
		} else if err := s.idle(ctx, spins); err != nil {
			return err
		}
	}
	if s.noPeak {
		s.done[0] = ticks.Now()
	}
	return nil
}
