//go:build linux

package tcp

// numbers counts the endpoints that this side has made toward a listener. After both sides have
// closed all their connections, either side may count from 0 again. The count is nevertheless kept
// as long as there is room, because the other side may continue its count.
type numbers struct {
	peer            sockaddr
	next            uint64 // number of the next endpoint
	alive           int    // endpoints toward the listener, and connections that claim it and have no endpoint
	prev, following *numbers
	listed          bool // idle, in the book's list
}

// numberBook has the numbers of all listeners. Of the listeners without endpoints and connections
// it keeps the maxIdleNumbers that have become idle last.
type numberBook struct {
	byPeer      map[sockaddr]*numbers
	first, last *numbers // idle ones, the longest idle first
	idle        int
}

// maxIdleNumbers is the number of idle listeners, which take some hundred KiB.
const maxIdleNumbers = 4096

// hold returns the numbers of a listener for an endpoint or connection, which ends with drop.
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

// drop releases the numbers for an endpoint or connection that has ended.
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

// take returns the number of a new endpoint.
func (n *numbers) take() uint64 {
	n.next++
	return n.next - 1
}
