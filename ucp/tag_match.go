package ucp

import "math/rand/v2"

// Tag matching. A message and a receive match when their tags agree in the bits
// of the receive's mask. Of the receives that match a message the one posted
// first gets it; of the messages that match a receive the one that arrived first.
//
// Receives with a full mask sit in a hash table by tag, the others in one list;
// a serial number restores the posting order between the two. Unexpected
// messages are in arrival order in one list and, by tag, in a hash table for
// receives with a full mask. One that is alone is in neither: most are received
// before the next comes.

const (
	tagBuckets    = 1024
	tagBucketBits = 10
)

// tagSpread says how tags are spread over the buckets: those that differ in any bits,
// and by a random odd number, as peers choose tags. Whatever they choose, two tags
// share a bucket for few of these numbers (Dietzfelbinger et al., "A Reliable
// Randomized Algorithm for the Closest-Pair Problem", 1997: one in half the buckets).
type tagSpread struct{ factor uint64 }

// newTagSpread draws numbers until tags that programs count up are spread well, too.
func newTagSpread() tagSpread {
	for {
		s := tagSpread{factor: rand.Uint64() | 1}
		if s.even() {
			return s
		}
	}
}

// even reports whether as many tags as there are buckets, counted up in any part of
// the tag, use many of these.
func (s *tagSpread) even() bool {
	for shift := 0; shift <= 64-tagBucketBits; shift += 2 {
		var used [tagBuckets]bool
		n := 0
		for i := range Tag(tagBuckets) {
			if b := &used[s.bucket(i<<shift)]; !*b {
				*b = true
				n++
			}
		}
		if n < tagBuckets/4 {
			return false
		}
	}
	return true
}

func (s *tagSpread) bucket(t Tag) uint64 {
	return uint64(t) * s.factor >> (64 - tagBucketBits)
}

// tagMatcher holds the posted receives and the unexpected messages of a worker.
type tagMatcher struct {
	spread  tagSpread
	sn      uint64 // of the receive posted last: so many were
	wilds   int    // receives in wild
	arrived messageList
	alone   *TagMessage // all there is, and in no list

	wild  receiveQueue
	exact [tagBuckets]receiveQueue
	byTag [tagBuckets]messageList
}

// empty reports whether no message waits for a receive.
func (m *tagMatcher) empty() bool { return m.arrived.head == nil && m.alone == nil }

// addExpected posts a receive.
func (m *tagMatcher) addExpected(r *Request) {
	r.state |= stateExpect
	if r.mask == FullMask {
		m.addExact(r)
		return
	}
	m.sn++
	r.sn = m.sn
	m.wild.push(r)
	m.wilds++
}

// addExact is addExpected for a receive with a full mask, whose state says already that
// it is posted.
func (m *tagMatcher) addExact(r *Request) {
	m.sn++
	r.sn = m.sn
	m.exact[m.spread.bucket(r.tag)].push(r)
}

// removeExpected takes a posted receive out.
func (m *tagMatcher) removeExpected(r *Request) {
	r.state &^= stateExpect
	if r.mask == FullMask {
		m.exact[m.spread.bucket(r.tag)].remove(r)
		return
	}
	m.wilds--
	m.wild.remove(r)
}

// matchExpected removes and returns the receive that gets a message, nil when
// none matches.
func (m *tagMatcher) matchExpected(tag Tag) *Request {
	if r := m.matchFirst(tag); r != nil {
		return r
	}
	return m.searchExpected(tag)
}

// matchFirst is matchExpected where that is the first receive in the tag's bucket, as
// it nearly always is, nil otherwise.
func (m *tagMatcher) matchFirst(tag Tag) *Request {
	l := &m.exact[m.spread.bucket(tag)]
	r := l.head
	if r == nil || r.tag != tag || m.wilds != 0 {
		return nil
	}
	// What removeExpected does with the first of a queue.
	r.state &^= stateExpect
	l.head, r.next = r.next, nil
	return r
}

// searchExpected is matchExpected in general.
func (m *tagMatcher) searchExpected(tag Tag) *Request {
	r := m.exact[m.spread.bucket(tag)].head
	for r != nil && r.tag != tag {
		r = r.next
	}
	if m.wilds != 0 {
		for q := m.wild.head; q != nil && (r == nil || q.sn < r.sn); q = q.next {
			if (q.tag^tag)&q.mask == 0 {
				r = q
				break
			}
		}
	}
	if r != nil {
		m.removeExpected(r)
	}
	return r
}

// addUnexpected keeps a message for which nothing is posted.
func (m *tagMatcher) addUnexpected(d *TagMessage) {
	if m.empty() {
		m.alone = d
		return
	}
	m.list()
	m.link(d)
}

// list puts a message that is alone into the lists.
func (m *tagMatcher) list() {
	if d := m.alone; d != nil {
		m.alone = nil
		m.link(d)
	}
}

// oldest returns the first unexpected message in a list of all.
func (m *tagMatcher) oldest() *TagMessage {
	m.list()
	return m.arrived.head
}

func (m *tagMatcher) link(d *TagMessage) {
	m.arrived.push(d, arrivalLinks)
	if d.from != nil {
		d.from.messages.push(d, sourceLinks)
	}
	m.byTag[m.spread.bucket(d.tag)].push(d, bucketLinks)
}

// findUnexpected returns the oldest message that a receive of tag and mask gets,
// nil when there is none.
func (m *tagMatcher) findUnexpected(tag, mask Tag) *TagMessage {
	if d := m.alone; d != nil {
		if (d.tag^tag)&mask != 0 {
			return nil
		}
		return d
	}
	if m.arrived.head == nil {
		return nil
	}
	return m.searchUnexpected(tag, mask)
}

// searchUnexpected is findUnexpected in the lists.
func (m *tagMatcher) searchUnexpected(tag, mask Tag) *TagMessage {
	if mask == FullMask {
		for d := m.byTag[m.spread.bucket(tag)].head; d != nil; d = d.links[bucketLinks].next {
			if d.tag == tag {
				return d
			}
		}
		return nil
	}
	for d := m.arrived.head; d != nil; d = d.links[arrivalLinks].next {
		if (d.tag^tag)&mask == 0 {
			return d
		}
	}
	return nil
}

// removeUnexpected takes a message out.
func (m *tagMatcher) removeUnexpected(d *TagMessage) {
	if d == m.alone {
		m.alone = nil
		return
	}
	m.arrived.remove(d, arrivalLinks)
	if d.from != nil {
		d.from.messages.remove(d, sourceLinks)
	}
	m.byTag[m.spread.bucket(d.tag)].remove(d, bucketLinks)
}

// A message is in three lists at once: of all, of its bucket, of its source.
const (
	arrivalLinks = iota
	bucketLinks
	sourceLinks
)

type messageLinks struct{ prev, next *TagMessage }

// messageList is a FIFO of messages through one of their pairs of links.
type messageList struct{ head, tail *TagMessage }

func (l *messageList) push(d *TagMessage, k int) {
	d.links[k] = messageLinks{prev: l.tail}
	if l.tail == nil {
		l.head = d
	} else {
		l.tail.links[k].next = d
	}
	l.tail = d
}

func (l *messageList) remove(d *TagMessage, k int) {
	e := &d.links[k]
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.links[k].next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.links[k].prev = e.prev
	}
	*e = messageLinks{}
}

// receiveQueue is a FIFO of posted receives through their next links: what a message
// costs is what is written here, and nearly all leave at the front. One that is
// canceled is looked for.
type receiveQueue struct {
	head *Request
	tail *Request // the last, unless there is none
}

func (q *receiveQueue) push(r *Request) {
	r.next = nil
	if q.head == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
}

// remove takes r out, which is in the queue.
func (q *receiveQueue) remove(r *Request) {
	if q.head == r {
		q.head, r.next = r.next, nil
		return
	}
	before := q.head
	for before.next != r {
		before = before.next
	}
	before.next, r.next = r.next, nil
	if q.tail == r {
		q.tail = before
	}
}
