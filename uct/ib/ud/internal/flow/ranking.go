//go:build linux

package flow

// ranking orders passive endpoints by the time of the last packet from their peer, the oldest first.
// It is a heap of lower bounds of these times. Packets arrive too often to move their endpoint in
// the heap each time, so an entry is brought up to date only when it is first. Before each
// update the endpoint has received at least one packet, so there are no more updates than packets.
type ranking struct {
	which int8 // index in Endpoint.ranks
	heap  []ranked
}

// The rankings that a passive endpoint is in, as indexes of Endpoint.ranks.
const (
	amongAll = iota
	atHome   // among the endpoints of its peer's address
	rankings
)

type ranked struct {
	bound int64 // lower bound of e.lastReceived: its value when the entry was last set
	e     *Endpoint
}

// longestSilent returns the endpoint whose last packet is oldest, nil if there is none.
func (r *ranking) longestSilent() *Endpoint {
	for len(r.heap) > 0 {
		x := r.heap[0]
		if x.bound == x.e.lastReceived {
			return x.e
		}
		x.bound = x.e.lastReceived
		r.down(0, x)
	}
	return nil
}

func (r *ranking) push(e *Endpoint) {
	r.heap = append(r.heap, ranked{})
	r.up(len(r.heap)-1, ranked{e.lastReceived, e})
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
		if r.heap[parent].bound <= x.bound {
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
		if child+1 < len(r.heap) && r.heap[child+1].bound < r.heap[child].bound {
			child++
		}
		if x.bound <= r.heap[child].bound {
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
