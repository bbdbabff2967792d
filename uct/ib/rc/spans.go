//go:build linux

package rc

import "time"

// spans are the puts and gets in flight whose lengths extend the time that the peer is allowed. The
// field first is the longest of all; the field rest is the longest of those posted after it, up to
// the last one that counts.
type spans struct{ first, rest span }

type span struct {
	n   int    // bytes; 0: there is none
	end uint32 // number of the last request that the span covers
}

// minCountedLen is the length in bytes from which a put or get counts although a longer one is in
// flight. It is the length for which one second is allowed.
const minCountedLen = int(time.Second / slowest)

// recordLong records a put or a get of n bytes that is about to be posted.
func (e *endpoint) recordLong(n int) {
	l, end := &e.long, e.posted+1
	switch {
	case n >= e.longestInFlight():
		*l = spans{first: span{n, end}}
	case n >= min(l.rest.n, minCountedLen):
		l.rest = span{max(l.rest.n, n), end}
	}
}

// longestInFlight returns the length of the longest put or get in flight, in bytes.
func (e *endpoint) longestInFlight() int {
	l := &e.long
	for l.first.n > 0 && !e.awaits(l.first.end) {
		*l = spans{first: l.rest}
	}
	return l.first.n
}
