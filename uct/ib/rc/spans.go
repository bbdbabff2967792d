//go:build linux

package rc

import "time"

// spans are puts and gets under way, by what the peer is granted for them: the longest of all,
// and of those behind it the longest, up to the last that is worth a grant.
type spans struct{ first, rest span }

type span struct {
	n   int    // bytes; 0: there is none
	end uint32 // count of the last request
}

// worthAGrant is how many bytes make a put or get count that is shorter than another: what would
// be granted a second.
const worthAGrant = int(time.Second / slowest)

// lasts is told that a put or a get of so many bytes is to be posted.
func (e *endpoint) lasts(n int) {
	l, end := &e.long, e.posted+1
	switch {
	case n >= e.granted():
		*l = spans{first: span{n, end}}
	case n >= min(l.rest.n, worthAGrant):
		l.rest = span{max(l.rest.n, n), end}
	}
}

// granted is the length of the longest put or get that is under way.
func (e *endpoint) granted() int {
	l := &e.long
	for l.first.n > 0 && !e.awaits(l.first.end) {
		*l = spans{first: l.rest}
	}
	return l.first.n
}
