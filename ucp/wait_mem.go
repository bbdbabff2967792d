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

// WaitMem waits until a word of the caller's memory is not old any more, or until something
// happens on the worker, be it a Signal: then it returns nil, and the caller looks at the
// word and whatever else it waits for. mem is 4 or 8 bytes, aligned to its length, in the
// byte order of the machine, and old their value when the caller looked. That closes the gap
// of ucp_worker_wait_mem of C, which is told no value and may wait for a change that has
// happened. When ctx ends first its error is returned.
//
// The worker is progressed meanwhile, as what peers write by messages is written by that,
// and callbacks run: the call returns behind a round in which anything has happened, so it
// is made in a loop. Who else writes the word, a peer in shared memory or a
// goroutine (by atomic operations), wakes nobody: after a while of looking, which UCX_WAIT
// bounds as for other waits, the caller sleeps in naps of at most a millisecond; what comes
// to the worker ends a nap early, except in ThreadModeMulti.
//
// Like other waits it is refused inside a callback, and in modes other than ThreadModeMulti
// while another goroutine waits on the worker. In ThreadModeMulti it returns also when
// another goroutine has progressed something, or did since the last WaitMem returned for that:
// what happens between a look and the call is told to one goroutine.
func (w *Worker) WaitMem(ctx context.Context, mem []byte, old uint64) error {
	if w.missing() {
		return errMissing("Worker.WaitMem", w == nil)
	}
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
	var seen uint64
	for round := 1; !changed(mem, old); round++ {
		if w.isClosed() {
			if round == 1 {
				return w.closedFor("WaitMem")
			}
			return errClosedMeanwhile
		}
		if w.stirred(&seen) {
			return nil
		}
		if w.Progress() > 0 {
			w.stirred(&seen) // this round's news, which the caller looks for now
			return nil
		}
		step := p.next(0)
		if round%64 == 0 || step == paceSleep {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if step != paceSleep {
			step.take()
			continue
		}
		switch told, err := w.nap(ctx, nap); {
		case told:
			return nil
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

// stirred reports whether there was a Signal, or in thread mode multi whether anybody has
// progressed something since seen, which is updated: 0 is when a WaitMem was told last.
func (w *Worker) stirred(seen *uint64) bool {
	if !w.multi && !w.wake.signaled.Load() {
		return false
	}
	w.enter()
	defer w.exit()
	told := w.heard()
	if w.multi {
		if *seen == 0 {
			*seen = max(1, w.wake.watched)
		}
		now := w.engine.Tellings()
		if told = told || now != *seen; told {
			w.wake.watched = now
		}
		*seen = now
	}
	return told
}

// changed reports whether a word has another value than old.
func changed(mem []byte, old uint64) bool {
	if len(mem) == 4 {
		return word.Load32(mem) != uint32(old)
	}
	return word.Load64(mem) != old
}

// nap sleeps for a time at most. It reports whether there was a Signal before it.
func (w *Worker) nap(ctx context.Context, d time.Duration) (told bool, err error) {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if w.multi { // whose event set is armed for those who wait for operations
		<-short.Done()
		return false, nil
	}
	w.enter()
	defer w.exit()
	if w.heard() {
		return true, nil
	}
	if err = w.armQuietly(); err == nil {
		err = w.park(short)
	}
	if short.Err() != nil {
		return false, nil
	}
	return false, err
}
