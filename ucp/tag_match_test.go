package ucp

import (
	"testing"

	"pgregory.net/rapid"
)

// matchModel is a model of tag matching without an index: two lists, searched from the front,
// beside the real matcher.
type matchModel struct {
	real    tagMatcher
	posted  []*Request
	arrived []*TagMessage
}

// agree reports whether a message and a receive match, by definition.
func agree(sender, tag, mask Tag) bool { return (sender^tag)&mask == 0 }

var modelSpread = newTagHash()

// modelTags are few tags, so that matches are frequent. They differ in low and in high bits, and
// some share a hash bucket.
var modelTags = func() []Tag {
	tags := []Tag{0, 1, 2, 3, 1 << 63, 1<<63 | 1, 0x5555_0000_0000_0001, ^Tag(0)}
	for t := Tag(4); len(tags) < 11; t++ {
		if modelSpread.bucket(t) == modelSpread.bucket(1) {
			tags = append(tags, t)
		}
	}
	return tags
}()

var modelMasks = []Tag{FullMask, FullMask, FullMask, 0, 1, 1 << 63, 0xFFFF_FFFF, ^Tag(1)}

func (m *matchModel) post(t *rapid.T) {
	r := &Request{
		tag:  rapid.SampledFrom(modelTags).Draw(t, "tag"),
		mask: rapid.SampledFrom(modelMasks).Draw(t, "mask"),
	}
	r.node.Value = r
	got := m.real.findUnexpected(r.tag, r.mask)
	for i, d := range m.arrived {
		if !agree(d.tag, r.tag, r.mask) {
			continue
		}
		if got != d {
			t.Fatalf("receive %#x/%#x found %v, want the message in place %d", r.tag, r.mask, got, i)
		}
		m.real.removeUnexpected(d)
		m.arrived = append(m.arrived[:i:i], m.arrived[i+1:]...)
		return
	}
	if got != nil {
		t.Fatalf("receive %#x/%#x found a message with tag %#x", r.tag, r.mask, got.tag)
	}
	m.real.addExpected(r)
	m.posted = append(m.posted, r)
}

func (m *matchModel) message(t *rapid.T) {
	tag := rapid.SampledFrom(modelTags).Draw(t, "tag")
	got := m.real.matchExpected(tag)
	for i, r := range m.posted {
		if !agree(tag, r.tag, r.mask) {
			continue
		}
		if got != r {
			t.Fatalf("message %#x did not go to the receive %#x/%#x in place %d", tag, r.tag, r.mask, i)
		}
		m.posted = append(m.posted[:i:i], m.posted[i+1:]...)
		return
	}
	if got != nil {
		t.Fatalf("message %#x went to the receive %#x/%#x", tag, got.tag, got.mask)
	}
	d := &TagMessage{tag: tag}
	m.real.addUnexpected(d)
	m.arrived = append(m.arrived, d)
}

func (m *matchModel) cancel(t *rapid.T) {
	if len(m.posted) == 0 {
		t.Skip("nothing posted")
	}
	i := rapid.IntRange(0, len(m.posted)-1).Draw(t, "target")
	m.real.removeExpected(m.posted[i])
	m.posted = append(m.posted[:i:i], m.posted[i+1:]...)
}

func (m *matchModel) probe(t *rapid.T) {
	tag := rapid.SampledFrom(modelTags).Draw(t, "tag")
	mask := rapid.SampledFrom(modelMasks).Draw(t, "mask")
	got := m.real.findUnexpected(tag, mask)
	for i, d := range m.arrived {
		if !agree(d.tag, tag, mask) {
			continue
		}
		if got != d {
			t.Fatalf("probe %#x/%#x found %v, want the message in place %d", tag, mask, got, i)
		}
		if rapid.Bool().Draw(t, "remove") {
			m.real.removeUnexpected(d)
			m.arrived = append(m.arrived[:i:i], m.arrived[i+1:]...)
		}
		return
	}
	if got != nil {
		t.Fatalf("probe %#x/%#x found a message with tag %#x", tag, mask, got.tag)
	}
}

// check compares the lists of the matcher with those of the model.
func (m *matchModel) check(t *rapid.T) {
	posted, wilds := 0, 0
	for i := range m.real.exact {
		for n := m.real.exact[i].Front(); n != nil; n = n.Next() {
			posted++
		}
	}
	for n := m.real.wild.Front(); n != nil; n = n.Next() {
		wilds++
	}
	if posted+wilds != len(m.posted) || wilds != m.real.wildCount {
		t.Fatalf("%d exact and %d (counted as %d) wild receives, want %d", posted, wilds, m.real.wildCount, len(m.posted))
	}
	for _, r := range m.posted {
		if r.state&stateExpect == 0 {
			t.Fatalf("a posted receive has state %b", r.state)
		}
	}
	if d := m.real.onlyMessage; d != nil {
		if len(m.arrived) != 1 || m.arrived[0] != d || m.real.arrived.head != nil {
			t.Fatal("a message that is not alone is in no list")
		}
		return
	}
	i := 0
	for d := m.real.arrived.head; d != nil; d = d.links[arrivalLinks].next {
		if i >= len(m.arrived) || m.arrived[i] != d {
			t.Fatalf("message %d of the arrival order is wrong", i)
		}
		i++
	}
	if i != len(m.arrived) {
		t.Fatalf("%d messages wait, want %d", i, len(m.arrived))
	}
	hashed := 0
	for i := range m.real.byTag {
		for d := m.real.byTag[i].head; d != nil; d = d.links[bucketLinks].next {
			hashed++
		}
	}
	if hashed != len(m.arrived) {
		t.Fatalf("%d messages are in the hash table, want %d", hashed, len(m.arrived))
	}
}

// TestTagMatcherModel compares the matcher with plain lists over random receives, messages, cancels
// and probes.
func TestTagMatcherModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := new(matchModel)
		m.real.hash = modelSpread
		t.Repeat(map[string]func(*rapid.T){
			"post":    m.post,
			"message": m.message,
			"cancel":  m.cancel,
			"probe":   m.probe,
			"":        m.check,
		})
	})
}

// TestTagBucketSpread checks that tags that differ only in some of their bits use many buckets.
func TestTagBucketSpread(t *testing.T) {
	for range 20 {
		s := newTagHash()
		for _, shift := range []int{0, 8, 16, 32, 48, 54} {
			used := make(map[uint64]bool)
			for i := range tagBuckets {
				used[s.bucket(Tag(i)<<shift)] = true
			}
			if len(used) < tagBuckets/4 {
				t.Errorf("%+v: tags that count in bit %d and above use %d of %d buckets", s, shift, len(used), tagBuckets)
			}
		}
	}
}

// TestChosenTags: a peer has chosen tags that share a bucket, for a hash factor that was once the
// same in all workers or for that of another worker. They are spread over the buckets here.
func TestChosenTags(t *testing.T) {
	once := tagHash{factor: 0x9E3779B97F4A7C15}
	for _, other := range []tagHash{once, newTagHash()} {
		v := newTarget(t)
		c := newConn()
		const n = 20_000
		tags := make([]Tag, 0, n)
		for tag := Tag(1); len(tags) < n; tag++ {
			if other.bucket(tag) == 7 {
				tags = append(tags, tag)
			}
		}
		v.accounts.Limits.Bytes = 1 << 30
		for _, tag := range tags {
			v.handle(v.tag.onEagerOnly(), c, eagerOnly(tag, nil))
		}
		longest := 0
		for i := range v.tag.byTag {
			k := 0
			for d := v.tag.byTag[i].head; d != nil; d = d.links[bucketLinks].next {
				k++
			}
			longest = max(longest, k)
		}
		if longest > n/8 {
			t.Errorf("factor %#x: %d of %d messages share a bucket", other.factor, longest, n)
		}
		v.tag.dropMessages()
	}
}
