//go:build linux

package flow

// ranking orders passive endpoints by the time of the last packet from their peer, the oldest first.
// It is a heap of lower bounds of these times. Packets arrive too often to move their endpoint in
// the heap each time, so an entry is brought up to date only when it is first. Each such update
// is paid for by at least one packet.
type ranking struct {
	which int8 // index in Endpoint.ranks
	heap  []ranked
}

// The rankings that a passive endpoint is in.
const (
	amongAll = iota
	atHome   // of the address of its peer
	rankings
)

type ranked struct {
	heard int64 // lower bound of e.heard: its value when the entry was last set
	e     *Endpoint
}

// quietest returns the endpoint whose last packet is oldest, nil if there is none.
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
