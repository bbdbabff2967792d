package ledger

import (
	"cmp"

	"github.com/ucx-go/ucx/internal/platform"
)

// Backlog is a bounded queue of requests from sources that may be untrusted. When it is full, a
// source may still add a request if another source has at least two more requests than it; one
// request of a source with the most requests is then dropped. So, with room for at least two, no
// source keeps others out by sending requests all the time. Refusing a request costs one lookup. A
// Backlog has no lock.
type Backlog[R comparable] struct {
	most    int
	list    map[R]request
	last    uint64         // number of the last request
	waiting map[Source]int // the number of requests of each source
	bySize  []int          // having[n] is the number of sources that have n requests
	highest int            // the largest number of requests of a source
}

// request is an entry of a Backlog.
type request struct {
	source Source
	number uint64
}

func (r request) compare(o request) int { return cmp.Compare(r.number, o.number) }

// NewBacklog makes a backlog that has room for the given number of requests.
func NewBacklog[R comparable](most int) *Backlog[R] {
	return &Backlog[R]{most: most, list: make(map[R]request), waiting: make(map[Source]int)}
}

// Most returns the number of requests for which there is room.
func (b *Backlog[R]) Most() int { return b.most }

// Len returns the number of requests.
func (b *Backlog[R]) Len() int { return len(b.list) }

// Drain removes all requests and returns them.
func (b *Backlog[R]) Drain() []R {
	list := make([]R, 0, len(b.list))
	for r := range platform.Ordered(b.list, request.compare) {
		list = append(list, r)
	}
	for _, r := range list {
		b.Remove(r)
	}
	return list
}

// HasRoom reports whether a source may add a request.
func (b *Backlog[R]) HasRoom(source Source) bool {
	return len(b.list) < b.most || b.highest >= b.waiting[source]+2
}

// Add adds a request of a source, if there is room for it. out is the request that was dropped to
// make room, or the zero value.
func (b *Backlog[R]) Add(r R, source Source) (out R, ok bool) {
	if !b.HasRoom(source) {
		return out, false
	}
	if len(b.list) >= b.most {
		for q, r := range platform.Ordered(b.list, request.compare) {
			if b.waiting[r.source] == b.highest {
				out = q
				break
			}
		}
		b.Remove(out)
	}
	b.last++
	b.list[r] = request{source, b.last}
	b.count(source, 1)
	return out, true
}

// Remove removes a request, if it is there.
func (b *Backlog[R]) Remove(r R) {
	if e, ok := b.list[r]; ok {
		delete(b.list, r)
		b.count(e.source, -1)
	}
}

// count changes the number of requests of a source by 1 or -1.
func (b *Backlog[R]) count(source Source, change int) {
	before := b.waiting[source]
	after := before + change
	if after == 0 {
		delete(b.waiting, source)
	} else {
		b.waiting[source] = after
	}
	for len(b.bySize) <= after {
		b.bySize = append(b.bySize, 0)
	}
	if before > 0 {
		b.bySize[before]--
	}
	b.bySize[after]++
	b.highest = max(b.highest, after)
	for b.highest > 0 && b.bySize[b.highest] == 0 {
		b.highest--
	}
}
