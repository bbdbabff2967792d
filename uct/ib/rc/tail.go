//go:build linux

package rc

// The tail of an endpoint is what it has posted after its last request that asks for a
// completion. Nothing reports that the tail has arrived, and closing the endpoint later takes
// an empty write to find out. By then the peer, which has received everything, may be gone, and
// its silence cannot be told from a loss. So when a burst of messages is over, which means some
// rounds of progress without an event, or before a sleep, such a write is posted while the peer
// is there. In a burst one request of each round trip asks for a completion, and where messages
// come one by one each of them does, so few writes are needed.

// quietRounds is how many rounds of progress without an event pass before tails are confirmed.
const quietRounds = 64

// markTail records that the endpoint has a tail, and nothing else in flight.
func (e *endpoint) markTail() {
	if e.failed == nil && !e.tailNode.Listed() {
		e.iface.tails.Add(&e.tailNode, e)
		e.iface.still = 0
	}
}

// quietRound counts a round of progress without an event.
func (i *iface) quietRound() {
	if i.still++; i.still >= quietRounds {
		i.confirmTails()
	}
}

// confirmTails posts an empty write after each tail, where there is room. An endpoint without
// room gets its tail confirmed by the completions that make room.
func (i *iface) confirmTails() {
	for i.tails.Len() > 0 {
		e := i.tails.Next()
		i.tails.Remove(&e.tailNode)
		if e.unsignaled > 0 && e.unsignaled == e.outstanding() {
			e.confirm(nil) // an error ends the endpoint
		}
	}
	i.still = 0
}
