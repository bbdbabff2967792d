//go:build linux

package flow

// An endpoint's id is a number of 24 bits that the peer puts into its packets. It consists of an
// index into the table and of the number of times that the table entry was used before, modulo 64.
// A free entry is reused only when more than reserve entries are free. So an id is reused only
// after thousands of endpoints, and packets for a removed endpoint match no endpoint. In C UCX an
// id is the index alone, and is reused at once.
const (
	indexBits = 18
	maxIndex  = 1<<indexBits - 1 // a table of this size has no id equal to wire.NullID
	reserve   = 256
)

type table struct {
	eps  []*Endpoint
	uses []uint8  // by index: number of earlier uses
	rest []uint32 // queue of free indexes
	head int      // index in rest of the next free index
	n    int      // number of endpoints
}

// add gives the endpoint an id. It returns false if there are limit endpoints or no free entry.
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

// find returns the endpoint of an id, nil if there is none.
func (t *table) find(id uint32) *Endpoint {
	if i := id & maxIndex; i < uint32(len(t.eps)) {
		if e := t.eps[i]; e != nil && e.id == id {
			return e
		}
	}
	return nil
}

// remove removes an endpoint.
func (t *table) remove(e *Endpoint) {
	i := e.id & maxIndex
	t.eps[i] = nil
	t.uses[i] = (t.uses[i] + 1) % (1 << (24 - indexBits))
	t.rest = append(t.rest, i)
	t.n--
}
