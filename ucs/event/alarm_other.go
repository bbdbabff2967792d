//go:build !linux || simulate

package event

import "time"

// alarm makes a Set ready at a given time.
type alarm struct{ due source }

func (a *alarm) open(set *Set, h Handler) error {
	return set.add(&a.due, h)
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
