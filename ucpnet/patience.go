package ucpnet

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// patience bounds the waits of the calls of one kind. A wait ends at the deadline, which may
// be changed meanwhile, when the connection is closed, or when an event asks the calls to
// check their condition again. A call waits with the current context, and asks for the next
// one when that has ended.
type patience struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	until  time.Time // the deadline, zero if there is none
	end    error     // why there is nothing to wait for any more
}

// errNudged ends a context whose users have to check their condition again.
var errNudged = errors.New("something has happened")

func (p *patience) renew() {
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
}

// current returns the context to wait with.
func (p *patience) current() context.Context {
	p.mu.Lock()
	if p.ctx == nil {
		p.renew()
	}
	ctx := p.ctx
	p.mu.Unlock()
	return ctx
}

// spent returns why a wait has ended: nil if it has not, or if its user only has to check
// its condition again.
func spent(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); err != errNudged {
		return err
	}
	return nil
}

// nudge makes the waiting calls check their conditions again.
func (p *patience) nudge() {
	p.mu.Lock()
	if p.ctx != nil && p.ctx.Err() == nil {
		p.cancel(errNudged)
		p.renew()
	}
	p.mu.Unlock()
}

// finish ends all waits for good. The error of a later call replaces that of an earlier one.
func (p *patience) finish(why error) {
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.ctx == nil || p.ctx.Err() != nil {
		p.renew()
	}
	p.end = why
	p.cancel(why)
	p.mu.Unlock()
}

// setDeadline sets the deadline; the zero time is none. It returns the end, if there was.
func (p *patience) setDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		return p.end
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.ctx == nil || p.ctx.Err() != nil {
		p.renew()
	}
	p.until = time.Time{}
	if t.IsZero() {
		return nil
	}
	now := time.Now()
	left := t.Sub(now)
	switch {
	case left <= 0:
		p.cancel(os.ErrDeadlineExceeded)
		return nil
	case p.timer == nil:
		p.timer = time.AfterFunc(left, p.expire)
	default:
		p.timer.Reset(left)
	}
	p.until = now.Add(left)
	return nil
}

// expire is called by the timer, possibly for a deadline that has been changed since.
func (p *patience) expire() {
	p.mu.Lock()
	if p.end == nil && !p.until.IsZero() && !time.Now().Before(p.until) {
		p.cancel(os.ErrDeadlineExceeded)
	}
	p.mu.Unlock()
}
