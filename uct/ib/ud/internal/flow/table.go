//go:build linux

package flow

// Ids of endpoints are numbers of 24 bits that a peer puts into its packets: an index
// into the table and how often the place was used before. A place rests while a
// reserve of others does, so an id comes again after thousands of endpoints, and
// packets for one that is gone find nothing. C uses the place alone, and again at once.
const (
	indexBits = 18
	maxIndex  = 1<<indexBits - 1 // the last would make wire.NullID
	reserve   = 256
)

type table struct {
	eps  []*Endpoint
	uses []uint8 // of each place, before this one
	rest []uint32
	head int // of rest, which is a queue
	n    int // endpoints
}

// add gives the endpoint an id. It reports whether there is room among limit.
func (t *table) add(e *Endpoint, limit int) bool {
	if t.n >= limit {
		return false
	}
	var i uint32
	if resting := len(t.rest) - t.head; resting > reserve || len(t.eps) >= maxIndex {
		if resting == 0 {
			return false
		}
		i = t.rest[t.head]
		if t.head++; t.head > reserve && t.head > len(t.rest)/2 {
			t.rest = append(t.rest[:0], t.rest[t.head:]...)
			t.head = 0
		}
	} else {
		i = uint32(len(t.eps))
		t.eps = append(t.eps, nil)
		t.uses = append(t.uses, 0)
	}
	t.eps[i] = e
	e.id = uint32(t.uses[i])<<indexBits | i
	t.n++
	return true
}

// find is the endpoint of an id, nil if it is not there.
func (t *table) find(id uint32) *Endpoint {
	if i := id & maxIndex; i < uint32(len(t.eps)) {
		if e := t.eps[i]; e != nil && e.id == id {
			return e
		}
	}
	return nil
}

// remove takes an endpoint out.
func (t *table) remove(e *Endpoint) {
	i := e.id & maxIndex
	t.eps[i] = nil
	t.uses[i] = (t.uses[i] + 1) % (1 << (24 - indexBits))
	t.rest = append(t.rest, i)
	t.n--
}
