//go:build linux

package rc

// The tail of an endpoint is what it has posted behind the last request that asks for a
// completion. Nobody hears that it has arrived, and whoever closes the endpoint later
// has to post an empty write to know; but by then the peer, which has got everything, may be
// gone, and its silence means the same as a loss. So when a burst of messages is over,
// with nothing to do for some rounds or before a sleep, such a write is posted while the
// peer is there. In a burst one request of each round trip asks, and where messages come one
// by one each does, so few writes are needed.

// quietRounds is how many rounds without an event a tail waits for the next message.
const quietRounds = 64

// markTail notes that the endpoint has a tail, and nothing else under way.
func (e *endpoint) markTail() {
	if e.failed == nil && !e.tailNode.Listed() {
		e.iface.tails.Add(&e.tailNode, e)
		e.iface.still = 0
	}
}

// quietRound counts a round in which nothing has happened.
func (i *iface) quietRound() {
	if i.still++; i.still >= quietRounds {
		i.confirmTails()
	}
}

// confirmTails posts writes behind all tails, where there is room. Those without are
// confirmed by what will make room.
func (i *iface) confirmTails() {
	for i.tails.Len() > 0 {
		e := i.tails.Next()
		i.tails.Remove(&e.tailNode)
		if e.unsignaled > 0 && e.unsignaled == e.outstanding() {
			e.confirm(nil) // what goes wrong ends the endpoint
		}
	}
	i.still = 0
}
