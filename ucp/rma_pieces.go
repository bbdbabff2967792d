package ucp

// Puts and gets that the CPU copies straight to or from the peer's memory, and puts
// by messages, take the time of the copy. Long ones are cut into pieces of copyPiece bytes, one in
// a round of progress, so that everything else goes on meanwhile. Several take
// turns.

// copyFlow is what an endpoint keeps for operations in pieces, made with the
// first. A transport's flush knows nothing of pieces that are still to come, so
// flushes wait for the operations that were started before them: these are
// counted by epoch, and a flush begins a new one.
type copyFlow struct {
	first  uint32 // epoch of counts[0]
	counts []int  // operations under way
	parked requestList
}

// split counts an operation that will go on in pieces, before it starts: fences and
// flushes must know of it while it waits for something else.
func (r *Request) split() {
	if r.data.length <= copyPiece {
		return
	}
	f := r.ep.flow()
	if f.copies == nil {
		f.copies = new(copyFlow)
	}
	r.state |= stateSplit
	f.copies.enter(r)
}

// later puts the rest of an operation that was split off to the next round of
// progress.
func (r *Request) later() { r.w.copying.push(r) }

// nextPieces goes on with an operation whose turn it is.
func nextPieces(r *Request) {
	r.list.remove(r)
	r.run()
}

// enter counts an operation. Its epoch is in sn.
func (c *copyFlow) enter(r *Request) {
	if len(c.counts) == 0 {
		c.counts = append(c.counts, 0)
	}
	last := len(c.counts) - 1
	c.counts[last]++
	r.sn = uint64(c.first + uint32(last))
}

// leave is called at the end of an operation. Flushes that need not wait any
// longer go on at the end of the round of progress: the operation must have been
// told of first.
func (c *copyFlow) leave(r *Request) {
	c.counts[uint32(r.sn)-c.first]--
	over := 0
	for over < len(c.counts) && c.counts[over] == 0 {
		over++
	}
	c.first += uint32(over)
	c.counts = c.counts[:copy(c.counts, c.counts[over:])]
	for p := c.parked.head; p != nil && reached(c.first, uint32(p.sn)); p = c.parked.head {
		c.parked.remove(p)
		p.state |= stateMoves
		p.w.dispatched.push(p)
	}
}

// busy reports whether operations are under way.
func (c *copyFlow) busy() bool { return c != nil && len(c.counts) > 0 }

// park lets a flush wait for the operations that are under way; false if there
// are none.
func (c *copyFlow) park(r *Request) bool {
	if !c.busy() {
		return false
	}
	if c.counts[len(c.counts)-1] > 0 {
		c.counts = append(c.counts, 0)
	}
	r.sn = uint64(c.first + uint32(len(c.counts)) - 1)
	c.parked.push(r)
	return true
}
