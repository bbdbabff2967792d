//go:build linux

package tcp

// numbers are those of the endpoints that we have made toward a listener. Who comes
// back after both sides have closed everything may begin anew; the numbers are kept
// all the same as long as there is room, for the other side may count on.
type numbers struct {
	peer            sockaddr
	next            uint64 // of the next endpoint
	alive           int    // endpoints toward it, and connections of it that have none
	prev, following *numbers
	listed          bool // idle, in the book's list
}

// numberBook has the numbers of all listeners. Those of maxIdleNumbers listeners are
// kept that have nothing alive, the ones that were alive last.
type numberBook struct {
	byPeer      map[sockaddr]*numbers
	first, last *numbers // idle ones, the longest idle first
	idle        int
}

// maxIdleNumbers is some hundred KiB.
const maxIdleNumbers = 4096

// hold returns the numbers of a listener, for something that is alive until drop.
func (b *numberBook) hold(peer sockaddr) *numbers {
	n := b.byPeer[peer]
	if n == nil {
		n = &numbers{peer: peer}
		if b.byPeer == nil {
			b.byPeer = make(map[sockaddr]*numbers)
		}
		b.byPeer[peer] = n
	}
	b.unlist(n)
	n.alive++
	return n
}

// drop is told that it is over.
func (b *numberBook) drop(n *numbers) {
	if n.alive--; n.alive > 0 {
		return
	}
	if n.next == 0 {
		delete(b.byPeer, n.peer)
		return
	}
	n.listed = true
	if n.prev = b.last; n.prev != nil {
		n.prev.following = n
	} else {
		b.first = n
	}
	b.last = n
	if b.idle++; b.idle > maxIdleNumbers {
		n := b.first
		b.unlist(n)
		delete(b.byPeer, n.peer)
	}
}

func (b *numberBook) unlist(n *numbers) {
	if !n.listed {
		return
	}
	if n.prev != nil {
		n.prev.following = n.following
	} else {
		b.first = n.following
	}
	if n.following != nil {
		n.following.prev = n.prev
	} else {
		b.last = n.prev
	}
	n.prev, n.following, n.listed = nil, nil, false
	b.idle--
}

// take is the number of a new endpoint.
func (n *numbers) take() uint64 {
	n.next++
	return n.next - 1
}
