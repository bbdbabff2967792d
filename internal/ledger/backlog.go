package ledger

import (
	"maps"
	"slices"
)

// Backlog is what waits for somebody to take it, of sources that may be strangers. When it is
// used up a source may still have one more waiting if another one has at least two more than it,
// which loses one. So where there is room for two no source keeps others out by asking all the
// time. What is refused costs a look. It has no lock.
type Backlog[R comparable] struct {
	most    int
	list    map[R]Source
	waiting map[Source]int // how many each has
	having  []int          // sources that have so many
	highest int            // of those numbers
}

// NewBacklog has room for so many.
func NewBacklog[R comparable](most int) *Backlog[R] {
	return &Backlog[R]{most: most, list: make(map[R]Source), waiting: make(map[Source]int)}
}

// Most is how many there is room for.
func (b *Backlog[R]) Most() int { return b.most }

// Len is how many wait.
func (b *Backlog[R]) Len() int { return len(b.list) }

// Drain has nothing wait any longer, and returns what did.
func (b *Backlog[R]) Drain() []R {
	list := slices.Collect(maps.Keys(b.list))
	for _, r := range list {
		b.Remove(r)
	}
	return list
}

// HasRoom reports whether a source may have one more waiting.
func (b *Backlog[R]) HasRoom(source Source) bool {
	return len(b.list) < b.most || b.highest >= b.waiting[source]+2
}

// Add has something of a source wait, if there is room for it. out is what had to make room, and
// does not wait any longer, or the zero value.
func (b *Backlog[R]) Add(r R, source Source) (out R, ok bool) {
	if !b.HasRoom(source) {
		return out, false
	}
	if len(b.list) >= b.most {
		for q, s := range b.list {
			if b.waiting[s] == b.highest {
				out = q
				break
			}
		}
		b.Remove(out)
	}
	b.list[r] = source
	b.count(source, 1)
	return out, true
}

// Remove has it wait no longer, if it does.
func (b *Backlog[R]) Remove(r R) {
	if source, ok := b.list[r]; ok {
		delete(b.list, r)
		b.count(source, -1)
	}
}

// count is told that a source has one more waiting, or one less.
func (b *Backlog[R]) count(source Source, change int) {
	before := b.waiting[source]
	after := before + change
	if after == 0 {
		delete(b.waiting, source)
	} else {
		b.waiting[source] = after
	}
	for len(b.having) <= after {
		b.having = append(b.having, 0)
	}
	if before > 0 {
		b.having[before]--
	}
	b.having[after]++
	b.highest = max(b.highest, after)
	for b.highest > 0 && b.having[b.highest] == 0 {
		b.highest--
	}
}
