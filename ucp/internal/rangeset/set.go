// Package rangeset records which bytes of a message have arrived.
package rangeset

import "slices"

// Set records which bytes of a message have arrived, so that none is counted twice. While fragments
// arrive in order, as they mostly do, it consists of one number. The zero value is empty.
type Set struct {
	prefix int    // all bytes before it have arrived
	spans  []span // bytes that have arrived behind a gap, in ascending order, not adjacent
}

type span struct{ start, end int }

// maxSpans is the largest number of gaps of one message. A peer that causes more is considered
// hostile.
const maxSpans = 4096

// maxKept is the largest capacity of Set.spans that Reset keeps: 512 bytes, more than a message
// over several lanes needs.
const maxKept = 32

// Reset empties the set. It keeps the memory of the spans, up to a bound, for the next message.
func (s *Set) Reset() {
	if cap(s.spans) > maxKept {
		s.spans = nil
	}
	*s = Set{spans: s.spans[:0]}
}

// Add records the bytes from off to off+n. It returns false, and records nothing, if some of them
// have arrived before or if there are too many gaps.
func (s *Set) Add(off, n int) bool {
	if n == 0 {
		return true
	}
	end := off + n
	if off == s.prefix && len(s.spans) == 0 {
		s.prefix = end
		return true
	}
	if off < s.prefix {
		return false
	}
	i, _ := slices.BinarySearchFunc(s.spans, off, func(a span, off int) int { return a.start - off })
	if i < len(s.spans) && end > s.spans[i].start || i > 0 && s.spans[i-1].end > off {
		return false
	}
	joinsLeft := i > 0 && s.spans[i-1].end == off
	joinsRight := i < len(s.spans) && s.spans[i].start == end
	switch {
	case joinsLeft && joinsRight:
		s.spans[i-1].end = s.spans[i].end
		s.spans = slices.Delete(s.spans, i, i+1)
	case joinsLeft:
		s.spans[i-1].end = end
	case joinsRight:
		s.spans[i].start = off
	case len(s.spans) == maxSpans && off != s.prefix:
		return false
	default:
		s.spans = slices.Insert(s.spans, i, span{off, end})
	}
	if s.spans[0].start == s.prefix {
		s.prefix = s.spans[0].end
		s.spans = slices.Delete(s.spans, 0, 1)
	}
	return true
}

// Each calls fn with each run of bytes that have arrived, in order, until fn returns false.
func (s *Set) Each(fn func(off, n int) bool) {
	if s.prefix > 0 && !fn(0, s.prefix) {
		return
	}
	for _, p := range s.spans {
		if !fn(p.start, p.end-p.start) {
			return
		}
	}
}

// Prefix returns the number of bytes that have arrived without a gap from the start.
func (s *Set) Prefix() int { return s.prefix }
