package ucp

import (
	"context"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
)

// Naps between looks at a word of memory. Peers and goroutines that write it ring no bell.
const (
	shortestNap = 20 * time.Microsecond
	longestNap  = time.Millisecond
)

// WaitMem waits until a word of the caller's memory is not old any more: mem is 4 or 8 bytes,
// aligned to its length, in the byte order of the machine, and old their value when the
// caller looked. That closes the gap of ucp_worker_wait_mem of C, which is told no value and
// may wait for a change that has happened. When ctx ends first its error is returned.
//
// The worker is progressed meanwhile, as what peers write by messages is written by that,
// and callbacks run. Who else writes the word, a peer in shared memory or a
// goroutine (by atomic operations), wakes nobody: after a while of looking, which UCX_WAIT
// bounds as for other waits, the caller sleeps in naps of at most a millisecond; what comes
// to the worker ends a nap early, except in ThreadModeMulti.
//
// Like other waits it is refused inside a callback, and in modes other than ThreadModeMulti
// while another goroutine waits on the worker.
func (w *Worker) WaitMem(ctx context.Context, mem []byte, old uint64) error {
	if n := len(mem); n != 4 && n != 8 || memoryAddress(mem)%uint64(n) != 0 {
		return fmt.Errorf("ucp: waiting for memory of %d bytes, which has to be a word: %w", n, ucs.ErrInvalidParam)
	}
	if w.multi {
		if w.engine.Nested() {
			return errWaitInside
		}
	} else if err := w.enterWait(); err != nil {
		return err
	} else {
		defer w.leaveWait()
	}
	return w.awaitWord(ctx, mem, old)
}

func (w *Worker) awaitWord(ctx context.Context, mem []byte, old uint64) error {
	p := pace{rule: w.pace.rule}
	nap := shortestNap
	for round := 1; !changed(mem, old); round++ {
		if w.isClosed() {
			if round == 1 {
				return ucs.ErrInvalidParam
			}
			return errClosedMeanwhile
		}
		n := w.Progress()
		if n > 0 {
			nap = shortestNap
		}
		step := p.next(n)
		if round%64 == 0 || step == paceSleep {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if step != paceSleep {
			step.take()
			continue
		}
		switch err := w.nap(ctx, nap); {
		case err == nil || ctx.Err() != nil:
		case awake(err):
			paceRest.take()
		default:
			return err
		}
		nap = min(2*nap, longestNap)
	}
	return nil
}

// changed reports whether a word has another value than old.
func changed(mem []byte, old uint64) bool {
	if len(mem) == 4 {
		return word.Load32(mem) != uint32(old)
	}
	return word.Load64(mem) != old
}

// nap sleeps for a time at most.
func (w *Worker) nap(ctx context.Context, d time.Duration) error {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if w.multi { // whose event set is armed for those who wait for operations
		<-short.Done()
		return nil
	}
	w.enter()
	defer w.exit()
	err := w.arm()
	if err == nil {
		err = w.park(short)
	}
	if short.Err() != nil {
		return nil
	}
	return err
}
