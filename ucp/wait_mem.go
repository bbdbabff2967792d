package ucp

import (
	"context"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucp/internal/backoff"
	"github.com/ucx-go/ucx/ucs"
)

// Bounds of the poll interval of WaitMem. A peer or goroutine that writes the word does not wake
// the caller.
const (
	minPollInterval = 20 * time.Microsecond
	maxPollInterval = time.Millisecond
)

// WaitMem waits until a word of the caller's memory differs from old, or until something
// happens on the worker, including Signal. Then it returns nil, and the caller checks the
// word and its other conditions. mem is 4 or 8 bytes, aligned to its length, in the byte
// order of the machine; old is the value that the caller last read. Passing old avoids the
// race of ucp_worker_wait_mem in C, which gets no value and may wait for a change that has
// already happened. If ctx ends first its error is returned.
//
// The worker is progressed meanwhile, because writes that peers send as messages need it,
// and callbacks run. The call returns after a round of progress in which anything has
// happened, so call it in a loop. Other writers of the word, such as a peer in shared
// memory or a goroutine with atomic operations, do not wake the caller. After spinning for
// a time, which UCX_WAIT bounds as for other waits, WaitMem polls the word with sleeps of
// at most a millisecond; an event on the worker ends a sleep early, except in
// ThreadModeMulti.
//
// Like other waits it is refused inside a callback, and in modes other than ThreadModeMulti
// while another goroutine waits on the worker. In ThreadModeMulti it also returns if
// another goroutine has progressed something since the last WaitMem that returned for this
// reason; only one goroutine is notified of that.
func (w *Worker) WaitMem(ctx context.Context, mem []byte, old uint64) error {
	if w.missing() {
		return errMissing("Worker.WaitMem", w == nil)
	}
	if n := len(mem); n != 4 && n != 8 || memoryAddress(mem)%uint64(n) != 0 {
		return fmt.Errorf("ucp: WaitMem of %d bytes, wanted 4 or 8, aligned to their length: %w", n, ucs.ErrInvalidParam)
	}
	if w.owner.multi {
		if w.owner.engine.Nested() {
			return errWaitInside
		}
	} else if err := w.wake.enterWait(); err != nil {
		return err
	} else {
		defer w.wake.leaveWait()
	}
	return w.wake.awaitWord(ctx, mem, old)
}

func (wk *wakeup) awaitWord(ctx context.Context, mem []byte, old uint64) error {
	w := wk.w
	p := w.backoff.Fresh()
	nap := minPollInterval
	var seen uint64
	for round := 1; !changed(mem, old); round++ {
		if w.owner.isClosed() {
			if round == 1 {
				return w.closedFor("WaitMem")
			}
			return errClosedMeanwhile
		}
		if wk.progressedSince(&seen) {
			return nil
		}
		if w.Progress() > 0 {
			wk.progressedSince(&seen) // marks this round's progress as reported
			return nil
		}
		step := p.Next(0)
		if round%64 == 0 || step == backoff.Sleep {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if step != backoff.Sleep {
			step.Take()
			continue
		}
		switch told, err := wk.sleepFor(ctx, nap); {
		case told:
			return nil
		case err == nil || ctx.Err() != nil:
		case awake(err):
			backoff.Rest.Take()
		default:
			return err
		}
		nap = min(2*nap, maxPollInterval)
	}
	return nil
}

// progressedSince reports whether there was a Signal, or in thread mode multi whether any goroutine
// has progressed something since *seen, a value of engine.Tellings, and updates *seen. 0 stands for
// the value that a WaitMem last returned for.
func (wk *wakeup) progressedSince(seen *uint64) bool {
	w := wk.w
	if !w.owner.multi && !wk.signaled.Load() {
		return false
	}
	w.owner.acquire()
	defer w.owner.release()
	told := wk.heard()
	if w.owner.multi {
		if *seen == 0 {
			*seen = max(1, wk.watched)
		}
		now := w.owner.engine.Tellings()
		if told = told || now != *seen; told {
			wk.watched = now
		}
		*seen = now
	}
	return told
}

// changed reports whether the word mem differs from old.
func changed(mem []byte, old uint64) bool {
	if len(mem) == 4 {
		return word.Load32(mem) != uint32(old)
	}
	return word.Load64(mem) != old
}

// sleepFor sleeps for d at most. told reports that there was a Signal before the sleep.
func (wk *wakeup) sleepFor(ctx context.Context, d time.Duration) (told bool, err error) {
	w := wk.w
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if w.owner.multi { // the event set is armed for the leader of the waiting calls
		<-short.Done()
		return false, nil
	}
	w.owner.acquire()
	defer w.owner.release()
	if wk.heard() {
		return true, nil
	}
	if err = wk.armQuietly(); err == nil {
		err = wk.park(short)
	}
	if short.Err() != nil {
		return false, nil
	}
	return false, err
}
