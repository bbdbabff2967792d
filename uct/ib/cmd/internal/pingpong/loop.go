//go:build linux

package pingpong

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// IDs of work requests. They are single bits, so that a bit set tells for which completions a queue
// pair waits before it sends again.
const (
	recvID = 1
	sendID = 2
)

// loop sends and receives the number of messages that the options give and returns the elapsed
// time. As in C, the messages of all queue pairs count together.
func (s *session) loop(ctx context.Context, k *link) (time.Duration, error) {
	waits := make([]uint64, len(s.qps))
	for i := range waits {
		waits[i] = recvID
		if s.opts.server == "" {
			continue
		}
		if err := s.send(i); err != nil {
			return 0, err
		}
		waits[i] |= sendID
	}
	start := time.Now()
	posted := s.opts.rxDepth
	for sent, received := 0, 0; sent < s.opts.iters || received < s.opts.iters; {
		n, err := s.next(ctx)
		if err != nil {
			return 0, err
		}
		for i := range s.wc[:n] {
			w := &s.wc[i]
			if err := w.Err(); err != nil {
				return 0, err
			}
			qp := s.find(w.QPN)
			if qp < 0 {
				return 0, fmt.Errorf("a completion of QP %#x, which this process does not have: %w", uint32(w.QPN), ucs.ErrIO)
			}
			if w.ID == sendID {
				sent++
			} else {
				if int(w.ByteLen) != len(s.in) {
					return 0, fmt.Errorf("a message of %d bytes arrived, %d were expected: %w", w.ByteLen, len(s.in), ucs.ErrInvalidParam)
				}
				if received++; received == 1 {
					k.stay()
				}
				if posted--; posted <= len(s.qps) {
					if err := s.postRecv(s.opts.rxDepth - posted); err != nil {
						return 0, err
					}
					posted = s.opts.rxDepth
				}
			}
			if waits[qp] &^= w.ID; waits[qp] == 0 && sent < s.opts.iters {
				if err := s.send(qp); err != nil {
					return 0, err
				}
				waits[qp] = recvID | sendID
			}
		}
	}
	return time.Since(start), nil
}

// next waits for completions, stores them in s.wc and returns their number.
func (s *session) next(ctx context.Context) (int, error) {
	if s.cq.Channel() != nil {
		n, err := s.cq.Wait(ctx, s.wc[:])
		if err != nil {
			// The last completions may be sufficient to finish.
			if n := s.cq.Poll(s.wc[:]); n > 0 {
				return n, nil
			}
			return 0, interrupted(ctx, err)
		}
		return n, nil
	}
	const look = 1 << 10 // polls between checks of ctx
	for i := 1; ; i++ {
		if n := s.cq.Poll(s.wc[:]); n > 0 {
			return n, nil
		}
		if i%look == 0 {
			if err := ctx.Err(); err != nil {
				return 0, interrupted(ctx, err)
			}
			runtime.Gosched()
		}
	}
}

// find returns the index of a queue pair, -1 if there is none.
func (s *session) find(n verbs.QPN) int {
	for i, q := range s.qps {
		if q.QPN() == n {
			return i
		}
	}
	return -1
}

func (s *session) send(qp int) error {
	_, err := s.qps[qp].PostSend(s.sends[:])
	return err
}

// postRecv posts n receives.
func (s *session) postRecv(n int) error {
	for n > 0 {
		list := s.recvs[:min(n, len(s.recvs))]
		var err error
		if s.srq != nil {
			_, err = s.srq.PostRecv(list)
		} else {
			_, err = s.qps[0].PostRecv(list)
		}
		if err != nil {
			return err
		}
		n -= len(list)
	}
	return nil
}
