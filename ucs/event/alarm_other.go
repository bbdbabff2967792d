//go:build !linux

package event

import "time"

// alarm is a time at which a set is ready.
type alarm struct{ due source }

func (a *alarm) open(set *Set, h Handler) error {
	set.add(&a.due, h)
	return nil
}

func (a *alarm) set(d time.Duration) error {
	now := monotonic()
	a.due.readyAt(now + min(d, never-now-1))
	return nil
}

func (a *alarm) clear() { a.due.readyAt(never) }

func (a *alarm) close(*Set) error {
	a.due.remove()
	return nil
}
