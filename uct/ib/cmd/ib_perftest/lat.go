//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Parameters of loops that wait for a message or completion.
const (
	checkMask = 1<<9 - 1 // the time is checked when these bits of the number of polls are 0
	spinTime  = 50e-6    // seconds after which the loop yields the CPU
	calmness  = 30e-3    // seconds until Go's monitor thread polls rarely; see settle
)

// silence is the time in seconds without a message after which receivers give up. The limit is
// needed because datagrams may be lost.
const silence = 120

// settle keeps this goroutine running for a while. When goroutines start and stop, the monitor
// thread of Go's runtime polls every 20 us, and then less and less often. At the beginning of a
// loop these polls would dominate the noise of a latency test.
func settle() {
	for end := ticks.Now() + ticks.FromSeconds(calmness); ticks.Now() < end; {
	}
}

// idle is called in every unsuccessful round of a waiting loop, with the number of consecutive such
// rounds. It fails when ctx ends, when the duration of the test has elapsed (errOver), or when no
// message has arrived for too long. On a machine with fewer free CPUs than processes, this loop may
// delay the process that handles the message: the other side, or the kernel's thread for soft-RoCE.
// Therefore idle yields the CPU after a while.
func (s *session) idle(ctx context.Context, rounds int) error {
	if rounds&checkMask != 0 {
		return nil
	}
	return s.idling(ctx, rounds)
}

//go:noinline
func (s *session) idling(ctx context.Context, rounds int) error {
	now := ticks.Now()
	if rounds == checkMask+1 {
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
	if s.lastReceived != 0 && now-s.lastReceived > ticks.FromSeconds(silence) {
		return fmt.Errorf("no message from the peer for %d s: %w", silence, ucs.ErrTimedOut)
	}
	return nil
}

// complete waits for one completion and returns its error.
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

// mark records the time at which message i is sent. In a timed test it records nothing, and returns
// errOver when the duration has elapsed.
func (s *session) mark(i int) error {
	now := ticks.Now()
	if s.duration == 0 {
		s.posted[i] = now
	} else if now >= s.clock.end {
		return errOver
	}
	return nil
}

// latWrite and the peer write to each other by turns: each side waits for the last byte of its
// memory to change and then writes back. The server begins. run_iter_lat_write,
// perftest_resources.c.
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

// latFetch posts one read or atomic at a time and waits for its completion; run_iter_lat.
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

// latSend and the peer send to each other by turns. The client begins. run_iter_lat_send.
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

// signal sets whether a request is signaled.
func signal(w *verbs.SendWR, on bool) {
	if on {
		w.Flags |= verbs.SendSignaled
	} else {
		w.Flags &^= verbs.SendSignaled
	}
}

// completions polls completions into s.wc and returns their number. With -e it waits until there is
// at least one. It fails if one of the completions has failed.
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
