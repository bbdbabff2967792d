package ucp

import "math/rand/v2"

// Tag matching. A message and a receive match if their tags agree in the bits of the receive's
// mask. Of the receives that match a message, the one posted first gets the message. Of the
// messages that match a receive, the receive gets the one that arrived first.
//
// Receives with a full mask are in a hash table by tag, the others in one list. A serial number
// restores the posting order between the two. Unexpected messages are in one list, in arrival
// order, and in a hash table by tag for receives with a full mask. A message that is alone is in
// neither, because most messages are received before the next one arrives.

const (
	tagBuckets    = 1024
	tagBucketBits = 10
)

// tagSpread is the hash function from tags to buckets: a multiplication by a random odd number.
// All bits of a tag matter, and the number is random because peers choose tags. Whatever they
// choose, two tags share a bucket for few of these numbers (Dietzfelbinger et al., "A Reliable
// Randomized Algorithm for the Closest-Pair Problem", 1997: one in half the buckets).
type tagSpread struct{ factor uint64 }

// newTagSpread draws random numbers until one also spreads consecutive tags well, because
// applications count tags up.
func newTagSpread() tagSpread {
	for {
		s := tagSpread{factor: rand.Uint64() | 1}
		if s.even() {
			return s
		}
	}
}

// even reports whether tagBuckets tags that are counted up, in any part of the tag, use at least
// a quarter of the buckets.
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
	sn      uint64 // serial number of the receive posted last, and number of receives posted
	wilds   int    // number of receives in wild
	arrived messageList
	alone   *TagMessage // the only unexpected message, in no list; nil if there is none or there are several

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

// addExact is addExpected for a receive with a full mask in whose state stateExpect is already
// set.
func (m *tagMatcher) addExact(r *Request) {
	m.sn++
	r.sn = m.sn
	m.exact[m.spread.bucket(r.tag)].push(r)
}

// removeExpected removes a posted receive.
func (m *tagMatcher) removeExpected(r *Request) {
	r.state &^= stateExpect
	if r.mask == FullMask {
		m.exact[m.spread.bucket(r.tag)].remove(r)
		return
	}
	m.wilds--
	m.wild.remove(r)
}

// matchExpected removes and returns the receive that gets a message with this tag, nil if none
// matches.
func (m *tagMatcher) matchExpected(tag Tag) *Request {
	if r := m.matchFirst(tag); r != nil {
		return r
	}
	return m.searchExpected(tag)
}

// matchFirst is matchExpected for the usual case: the first receive in the tag's bucket matches
// and no receive has a partial mask. In other cases it returns nil.
func (m *tagMatcher) matchFirst(tag Tag) *Request {
	l := &m.exact[m.spread.bucket(tag)]
	r := l.head
	if r == nil || r.tag != tag || m.wilds != 0 {
		return nil
	}
	// removeExpected, for the first receive of a queue.
	r.state &^= stateExpect
	l.head, r.next = r.next, nil
	return r
}

// searchExpected is matchExpected for all cases.
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

// addUnexpected adds a message that no posted receive matches.
func (m *tagMatcher) addUnexpected(d *TagMessage) {
	if m.empty() {
		m.alone = d
		return
	}
	m.list()
	m.link(d)
}

// list moves a message that is alone into the lists.
func (m *tagMatcher) list() {
	if d := m.alone; d != nil {
		m.alone = nil
		m.link(d)
	}
}

// oldest returns the oldest unexpected message, nil if there is none. It moves a message that is
// alone into the lists.
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

// findUnexpected returns the oldest message that matches a receive with tag and mask, nil if
// there is none.
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

// removeUnexpected removes an unexpected message.
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

// A message is in three lists at once: of all messages, of its bucket, and of its source.
const (
	arrivalLinks = iota
	bucketLinks
	sourceLinks
)

type messageLinks struct{ prev, next *TagMessage }

// messageList is a FIFO of messages, linked through one of their three pairs of links.
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

// receiveQueue is a FIFO of posted receives, linked through next only, to keep the cost per
// message low: nearly all receives leave at the front. The removal of a canceled receive searches
// the queue.
type receiveQueue struct {
	head *Request
	tail *Request // the last receive; meaningless if head is nil
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

// remove removes r, which must be in the queue.
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
