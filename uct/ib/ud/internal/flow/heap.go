//go:build linux

package flow

// heap orders endpoints by the time of their next timer check, the earliest first.
type heap []*Endpoint

func (h *heap) push(e *Endpoint) {
	*h = append(*h, e)
	h.up(len(*h)-1, e)
}

func (h *heap) remove(e *Endpoint) {
	i, n := int(e.slot), len(*h)-1
	last := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	e.slot = none
	if i == n {
		return
	}
	h.down(i, last)
	if int(last.slot) == i {
		h.up(i, last)
	}
}

// soon makes timer checks frequent again, because the peer has answered. C leaves the next check at
// its backed-off time, which may be seconds away.
func (e *Endpoint) soon() {
	it := e.it
	e.every = it.tick
	if e.slot != none && e.due > it.now+4*it.tick {
		e.due = it.now + it.tick
		it.timers.up(int(e.slot), e)
	}
}

func (h heap) up(i int, e *Endpoint) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].due <= e.due {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, e)
}

func (h heap) down(i int, e *Endpoint) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].due < h[child].due {
			child++
		}
		if e.due <= h[child].due {
			break
		}
		h.set(i, h[child])
		i = child
	}
	h.set(i, e)
}

func (h heap) set(i int, e *Endpoint) {
	h[i] = e
	e.slot = int32(i)
}
