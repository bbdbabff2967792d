//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/cmd/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// What happens in loops that find nothing.
const (
	patience = 1<<9 - 1 // rounds between looks at the clock, less one
	spinTime = 50e-6    // seconds after which others may run
	calmness = 30e-3    // seconds until Go's monitor thread is calm, see settle
)

// silence is after how many seconds without a message the loops of receivers give
// up: datagrams may be lost. 0 stands for never.
const silence = 120

// settle keeps this goroutine running for a while. As long as goroutines come and
// go, a thread of Go's runtime looks after them every 20 us, and then less and less
// often: at the beginning of a loop it would be most of what a latency test sees
// besides the messages.
func settle() {
	for end := ticks.Now() + ticks.FromSeconds(calmness); ticks.Now() < end; {
	}
}

// idle is called in every round of a loop that finds nothing, with how many there
// were in a row. On a machine with fewer free CPUs than there are processes, what
// handles the message may wait for this one: the other side, or the kernel's thread
// for soft-RoCE. So others may run if it takes long.
func (s *session) idle(ctx context.Context, rounds int) error {
	if rounds&patience != 0 {
		return nil
	}
	return s.idling(ctx, rounds)
}

//go:noinline
func (s *session) idling(ctx context.Context, rounds int) error {
	now := ticks.Now()
	if rounds == patience+1 {
		s.idleSince = now
	} else if now-s.idleSince > s.spin {
		s.yield()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if now >= s.clock.end {
		return errOver
	}
	if s.heard != 0 && now-s.heard > ticks.FromSeconds(silence) {
		return fmt.Errorf("no message for %d s: %w", silence, ucs.ErrTimedOut)
	}
	return nil
}

// complete waits for one completion.
func (s *session) complete(ctx context.Context, cq *verbs.CQ) error {
	if s.events {
		if _, err := cq.Wait(ctx, s.wc[:1]); err != nil {
			return err
		}
		return s.wc[0].Err()
	}
	for spins := 1; cq.Poll(s.wc[:1]) == 0; spins++ {
		if err := s.idle(ctx, spins); err != nil {
			return err
		}
	}
	return s.wc[0].Err()
}

// mark notes when message i is sent.
func (s *session) mark(i int) error {
	now := ticks.Now()
	if s.duration == 0 {
		s.posted[i] = now
	} else if now >= s.clock.end {
		return errOver
	}
	return nil
}

// latWrite writes to each other by turns: who sees its last byte change answers.
// The server begins. run_iter_lat_write, perftest_resources.c.
func (s *session) latWrite(ctx context.Context, size int) error {
	n := s.total()
	wr := s.requests(size)
	wr[0].Flags |= verbs.SendSignaled
	in := lastByte(s.buf[s.half : s.half+size])
	out := &s.buf[size-1]
	sent, completed, received := 0, 0, 0
	s.start()
	for sent < n || completed < n || received < n {
		if received < n && (sent > 0 || s.peer.client) {
			received++
			for spins := 1; in.load() != byte(received); spins++ {
				if err := s.idle(ctx, spins); err != nil {
					return err
				}
			}
		}
		if sent < n {
			if err := s.mark(sent); err != nil {
				return err
			}
			sent++
			*out = byte(sent)
			if _, err := s.qp.PostSend(wr); err != nil {
				return err
			}
		}
		if completed < n {
			if err := s.complete(ctx, s.sendCQ); err != nil {
				return err
			}
			completed++
			if s.duration > 0 {
				if err := s.count(1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// latFetch reads, or adds, and waits for the answer; run_iter_lat.
func (s *session) latFetch(ctx context.Context, size int) error {
	n := s.total()
	wr := s.requests(size)
	wr[0].Flags |= verbs.SendSignaled
	s.start()
	for sent := 0; sent < n; sent++ {
		if err := s.mark(sent); err != nil {
			return err
		}
		if _, err := s.qp.PostSend(wr); err != nil {
			return err
		}
		if err := s.complete(ctx, s.sendCQ); err != nil {
			return err
		}
		if s.duration > 0 {
			if err := s.count(1); err != nil {
				return err
			}
		}
	}
	return nil
}

// latSend sends to each other by turns. The client begins. run_iter_lat_send.
func (s *session) latSend(ctx context.Context, size int) error {
	n := s.total()
	wr := s.requests(size)
	rwr := []verbs.RecvWR{{SGList: make([]verbs.SGE, 1)}}
	s.receive(rwr[0].SGList, 0, size)
	sent, received := 0, 0
	for sent < n || received < n {
		if received < n && (sent > 0 || !s.peer.client) {
			if err := s.complete(ctx, s.recvCQ); err != nil {
				return err
			}
			if received == 0 {
				s.start()
			}
			received++
			if s.duration > 0 {
				if err := s.count(1); err != nil {
					return err
				}
			}
			if s.duration > 0 || received+s.rxDepth <= n {
				if _, err := s.qp.PostRecv(rwr); err != nil {
					return err
				}
			}
		}
		if sent < n {
			if err := s.mark(sent); err != nil {
				return err
			}
			sent++
			signaled := sent%s.cqMod == 0 || sent == n
			signal(&wr[0], signaled)
			if _, err := s.qp.PostSend(wr); err != nil {
				return err
			}
			if signaled {
				if err := s.complete(ctx, s.sendCQ); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// signal sets whether a request completes visibly.
func signal(w *verbs.SendWR, on bool) {
	if on {
		w.Flags |= verbs.SendSignaled
	} else {
		w.Flags &^= verbs.SendSignaled
	}
}

// completions takes what has completed, waiting for some if there are events.
func (s *session) completions(ctx context.Context, cq *verbs.CQ) (n int, err error) {
	if s.events {
		n, err = cq.Wait(ctx, s.wc[:])
	} else {
		n = cq.Poll(s.wc[:])
	}
	for i := range s.wc[:n] {
		err = errors.Join(err, s.wc[i].Err())
	}
	return n, err
}
