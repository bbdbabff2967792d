//go:build linux

package rc

// The tail of an endpoint consists of the requests that it has posted after its last request that
// asks for a completion. Nothing reports that the tail has arrived. To find out, closing the
// endpoint later would need an empty write; by then the peer, which has received everything, may be
// gone, and the failure of the write could not be distinguished from a loss. So the empty write is
// posted while the peer is there: when a burst of messages is over, which means some rounds of
// progress without an event, or before a sleep. In a burst one request of each round trip asks for
// a completion, and where messages come one by one each of them does, so few writes are needed.

// quietRounds is how many rounds of progress without an event pass before tails are confirmed.
const quietRounds = 64

// markTail records that the endpoint has a tail, and nothing else in flight.
func (e *endpoint) markTail() {
	if e.failed == nil && !e.tailNode.Listed() {
		e.iface.tails.Add(&e.tailNode, e)
		e.iface.idleRounds = 0
	}
}

// quietRound counts a round of progress without an event.
func (i *iface) quietRound() {
	if i.idleRounds++; i.idleRounds >= quietRounds {
		i.confirmTails()
	}
}

// confirmTails posts an empty write after each tail, where there is room. The tail of an endpoint
// without room is confirmed by the completions that make room.
func (i *iface) confirmTails() {
	for i.tails.Len() > 0 {
		e := i.tails.Next()
		i.tails.Remove(&e.tailNode)
		if e.unsignaled > 0 && e.unsignaled == e.outstanding() {
			e.confirm(nil) // an error ends the endpoint
		}
	}
	i.idleRounds = 0
}
