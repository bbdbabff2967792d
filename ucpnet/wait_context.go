package ucpnet

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// waitContext provides the contexts for the waits of one kind of call, such as the reads of a
// connection. A context ends at the deadline, which may change during the wait, when the connection
// is closed, or when an event requires the calls to check their condition again. A call waits with
// the current context, and gets the next one after that has ended.
type waitContext struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	until  time.Time // the deadline, zero if there is none
	end    error     // the error of all further calls, once set
}

// errNudged is the cause of a context that ended because callers must check their condition again.
var errNudged = errors.New("wait interrupted to check the condition again")

func (p *waitContext) renew() {
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
}

// current returns the context to wait with.
func (p *waitContext) current() context.Context {
	p.mu.Lock()
	if p.ctx == nil {
		p.renew()
	}
	ctx := p.ctx
	p.mu.Unlock()
	return ctx
}

// waitError returns the error with which a context of waitContext has ended. It is nil if the
// context has not ended, or if the caller only has to check its condition again.
func waitError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); err != errNudged {
		return err
	}
	return nil
}

// nudge makes the waiting calls check their conditions again.
func (p *waitContext) nudge() {
	p.mu.Lock()
	if p.ctx != nil && p.ctx.Err() == nil {
		p.cancel(errNudged)
		p.renew()
	}
	p.mu.Unlock()
}

// finish ends all current and later waits with the error why. A second call of finish replaces the
// error.
func (p *waitContext) finish(why error) {
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

// setDeadline sets the deadline; the zero time means none. If finish was called it returns the
// error of finish.
func (p *waitContext) setDeadline(t time.Time) error {
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

// expire is the timer's function. The deadline may have changed since the timer was set.
func (p *waitContext) expire() {
	p.mu.Lock()
	if p.end == nil && !p.until.IsZero() && !time.Now().Before(p.until) {
		p.cancel(os.ErrDeadlineExceeded)
	}
	p.mu.Unlock()
}
