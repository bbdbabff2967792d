package ucp

import (
	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/list"
)

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

// tagHash is the hash function from tags to buckets: a multiplication by a random odd number. All
// bits of a tag matter, and the number is random because peers choose tags. Any two tags share a
// bucket only for a small fraction of these numbers, at most 2/tagBuckets (Dietzfelbinger et al.,
// "A Reliable Randomized Algorithm for the Closest-Pair Problem", 1997).
type tagHash struct{ factor uint64 }

// newTagHash draws random numbers until one also spreads consecutive tags well, because
// applications use consecutive tags.
func newTagHash() tagHash {
	for {
		s := tagHash{factor: platform.Uint64() | 1}
		if s.spreadsEvenly() {
			return s
		}
	}
}

// spreadsEvenly reports whether tagBuckets consecutive numbers, in any bits of the tag, use at least a
// quarter of the buckets.
func (s *tagHash) spreadsEvenly() bool {
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

func (s *tagHash) bucket(t Tag) uint64 {
	return uint64(t) * s.factor >> (64 - tagBucketBits)
}

// tagMatcher holds the posted receives and the unexpected messages of a worker.
type tagMatcher struct {
	hash        tagHash
	sn          uint64 // serial number of the receive posted last, and number of receives posted
	wildCount   int    // number of receives in wild
	arrived     messageList
	onlyMessage *TagMessage // the only unexpected message, in no list; nil if there is none or there are several

	wild  list.Queue[Request]
	exact [tagBuckets]list.Queue[Request]
	byTag [tagBuckets]messageList
}

// empty reports whether no message waits for a receive.
func (m *tagMatcher) empty() bool { return m.arrived.head == nil && m.onlyMessage == nil }

// addExpected posts a receive.
func (m *tagMatcher) addExpected(r *Request) {
	r.state |= stateExpect
	if r.mask == FullMask {
		m.addExact(r)
		return
	}
	m.sn++
	r.sn = m.sn
	m.wild.Push(&r.node)
	m.wildCount++
}

// addExact is addExpected for a receive with a full mask in whose state stateExpect is already
// set.
func (m *tagMatcher) addExact(r *Request) {
	m.sn++
	r.sn = m.sn
	m.exact[m.hash.bucket(r.tag)].Push(&r.node)
}

// removeExpected removes a posted receive.
func (m *tagMatcher) removeExpected(r *Request) {
	r.state &^= stateExpect
	if r.mask == FullMask {
		m.exact[m.hash.bucket(r.tag)].Remove(&r.node)
		return
	}
	m.wildCount--
	m.wild.Remove(&r.node)
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
	q := &m.exact[m.hash.bucket(tag)]
	if n := q.Front(); n != nil && n.Value.tag == tag && m.wildCount == 0 {
		r := n.Value
		q.Pop()
		r.state &^= stateExpect // as removeExpected does
		return r
	}
	return nil
}

// searchExpected is matchExpected for all cases.
func (m *tagMatcher) searchExpected(tag Tag) *Request {
	n := m.exact[m.hash.bucket(tag)].Front()
	for n != nil && n.Value.tag != tag {
		n = n.Next()
	}
	if m.wildCount != 0 {
		for q := m.wild.Front(); q != nil && (n == nil || q.Value.sn < n.Value.sn); q = q.Next() {
			if (q.Value.tag^tag)&q.Value.mask == 0 {
				n = q
				break
			}
		}
	}
	if n == nil {
		return nil
	}
	r := n.Value
	m.removeExpected(r)
	return r
}

// addUnexpected adds a message that no posted receive matches.
func (m *tagMatcher) addUnexpected(d *TagMessage) {
	if m.empty() {
		m.onlyMessage = d
		return
	}
	m.list()
	m.link(d)
}

// list moves the message m.alone, if there is one, into the lists.
func (m *tagMatcher) list() {
	if d := m.onlyMessage; d != nil {
		m.onlyMessage = nil
		m.link(d)
	}
}

// oldest returns the oldest unexpected message, nil if there is none. It moves the message m.alone,
// if there is one, into the lists.
func (m *tagMatcher) oldest() *TagMessage {
	m.list()
	return m.arrived.head
}

func (m *tagMatcher) link(d *TagMessage) {
	m.arrived.push(d, arrivalLinks)
	if d.from != nil {
		d.from.messages.push(d, sourceLinks)
	}
	m.byTag[m.hash.bucket(d.tag)].push(d, bucketLinks)
}

// findUnexpected returns the oldest message that matches a receive with tag and mask, nil if
// there is none.
func (m *tagMatcher) findUnexpected(tag, mask Tag) *TagMessage {
	if d := m.onlyMessage; d != nil {
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
		for d := m.byTag[m.hash.bucket(tag)].head; d != nil; d = d.links[bucketLinks].next {
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
	if d == m.onlyMessage {
		m.onlyMessage = nil
		return
	}
	m.arrived.remove(d, arrivalLinks)
	if d.from != nil {
		d.from.messages.remove(d, sourceLinks)
	}
	m.byTag[m.hash.bucket(d.tag)].remove(d, bucketLinks)
}

// Indices in TagMessage.links. A message is in three lists at once: of all messages, of its bucket,
// and of its source.
const (
	arrivalLinks = iota
	bucketLinks
	sourceLinks
)

type messageLinks struct{ prev, next *TagMessage }

// messageList is a FIFO of messages, linked through one of their three pairs of links. It is not a
// list of package list, because peers decide how many messages wait: the nodes of three lists would
// take 96 bytes of each message, and these links take 48.
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
