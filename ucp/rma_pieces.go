package ucp

// Puts and gets that the CPU copies straight to or from the peer's memory, and puts
// by messages, take the time of the copy. Long ones are cut into pieces of
// copyPiece bytes, one in a round of progress, so that everything else goes on
// meanwhile. Several take turns.

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
// flushes must know of it.
func (r *Request) split() {
	if r.data.length <= copyPiece {
		return
	}
	f := r.ep.flow()
	if f.copies == nil {
		f.copies = new(copyFlow)
	}
	r.state |= stateSplit
	r.access.epoch = f.copies.enter()
}

// unsplit ends that, and lets flushes go on that waited for it.
func (r *Request) unsplit() {
	if r.state&stateSplit != 0 {
		r.state &^= stateSplit
		r.ep.rma.copies.leave(r.access.epoch)
	}
}

// inPieces calls a function for the bytes that one round of progress may copy, up
// to n in one call, and ends the operation behind the last.
func (r *Request) inPieces(copyUpTo func(n int) error) error {
	for end := r.offset + copyPiece; r.offset < r.data.length; {
		if r.offset >= end {
			r.later()
			return nil
		}
		if err := copyUpTo(min(r.data.length, end) - r.offset); err != nil {
			return err
		}
	}
	r.finish(nil)
	return nil
}

// enter counts an operation and returns its epoch.
func (c *copyFlow) enter() uint32 {
	if len(c.counts) == 0 {
		c.counts = append(c.counts, 0)
	}
	last := len(c.counts) - 1
	c.counts[last]++
	return c.first + uint32(last)
}

// leave is called at the end of an operation. Flushes that need not wait any
// longer go on at the end of the round of progress: the operation must have been
// told of first.
func (c *copyFlow) leave(epoch uint32) {
	c.counts[epoch-c.first]--
	over := 0
	for over < len(c.counts) && c.counts[over] == 0 {
		over++
	}
	c.first += uint32(over)
	c.counts = c.counts[:copy(c.counts, c.counts[over:])]
	for p := c.parked.head; p != nil && reached(c.first, p.flush.epoch); p = c.parked.head {
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
	r.flush.epoch = c.first + uint32(len(c.counts)) - 1
	c.parked.push(r)
	return true
}
