package ucpnet

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// patience is how long calls of one kind may wait: until a deadline, which may be changed
// while they do, until the end, or until something has happened that they have to look at.
// They wait with its context, and ask for it again when that has ended.
type patience struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	until  time.Time // the deadline, zero if there is none
	end    error     // why there is nothing to wait for any more
}

// errNudged ends a context whose users are to look at what has happened.
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

// spent says why a context has ended: nil if it has not, or only for its users to look
// again.
func spent(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); err != errNudged {
		return err
	}
	return nil
}

// nudge has those who wait look at what has happened.
func (p *patience) nudge() {
	p.mu.Lock()
	if p.ctx != nil && p.ctx.Err() == nil {
		p.cancel(errNudged)
		p.renew()
	}
	p.mu.Unlock()
}

// finish ends all waiting, for good. A later end takes the place of an earlier one.
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

// expire is called by the timer, maybe for a deadline that was changed since.
func (p *patience) expire() {
	p.mu.Lock()
	if p.end == nil && !p.until.IsZero() && !time.Now().Before(p.until) {
		p.cancel(os.ErrDeadlineExceeded)
	}
	p.mu.Unlock()
}
