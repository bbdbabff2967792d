//go:build linux

package flow

// ranking is passive endpoints by when something was heard from them, the quietest
// first: a heap by what is known of that. Packets come too often for each to move its
// endpoint, so an endpoint is found out to have been heard when it is first, and each time
// that this costs something is one of a packet.
type ranking struct {
	which int8 // of the places of an endpoint
	heap  []ranked
}

// Rankings that a passive endpoint is in.
const (
	amongAll = iota
	atHome   // at the address of its peer
	rankings
)

type ranked struct {
	heard int64 // at least; that of the endpoint when it came here
	e     *Endpoint
}

// quietest is the endpoint from which nothing was heard for longest, nil if there is none.
func (r *ranking) quietest() *Endpoint {
	for len(r.heap) > 0 {
		x := r.heap[0]
		if x.heard == x.e.heard {
			return x.e
		}
		x.heard = x.e.heard
		r.down(0, x)
	}
	return nil
}

func (r *ranking) push(e *Endpoint) {
	r.heap = append(r.heap, ranked{})
	r.up(len(r.heap)-1, ranked{e.heard, e})
}

func (r *ranking) remove(e *Endpoint) {
	i, n := int(e.ranks[r.which]), len(r.heap)-1
	last := r.heap[n]
	r.heap[n] = ranked{}
	r.heap = r.heap[:n]
	if i == n {
		return
	}
	r.down(i, last)
	if int(last.e.ranks[r.which]) == i {
		r.up(i, last)
	}
}

func (r *ranking) up(i int, x ranked) {
	for i > 0 {
		parent := (i - 1) / 2
		if r.heap[parent].heard <= x.heard {
			break
		}
		r.set(i, r.heap[parent])
		i = parent
	}
	r.set(i, x)
}

func (r *ranking) down(i int, x ranked) {
	for {
		child := 2*i + 1
		if child >= len(r.heap) {
			break
		}
		if child+1 < len(r.heap) && r.heap[child+1].heard < r.heap[child].heard {
			child++
		}
		if x.heard <= r.heap[child].heard {
			break
		}
		r.set(i, r.heap[child])
		i = child
	}
	r.set(i, x)
}

func (r *ranking) set(i int, x ranked) {
	r.heap[i] = x
	x.e.ranks[r.which] = int32(i)
}
