//go:build linux

package flow

// Dispatch posts the owed control packets. It reports whether all were posted. Otherwise the queue
// is full, and the next call begins with the endpoints that this call did not reach.
func (it *Iface) Dispatch() bool { return it.dispatch(^owed(0)) }

// DispatchFirst is Dispatch for the packets that have to go before new messages. New messages may
// carry the information of the other packets.
func (it *Iface) DispatchFirst() bool { return it.dispatch(oweFirst) }

func (it *Iface) dispatch(which owed) bool {
	for e := it.ready.first; e != nil; {
		next := e.links[linkReady].next
		if e.owed&which != 0 {
			if !e.postOwed(which) {
				it.ready.drop(e, linkReady)
				it.ready.push(e, linkReady)
				return false
			}
			if e.owed == 0 {
				it.ready.drop(e, linkReady)
			}
			e.settle()
			if next != nil && !next.links[linkReady].on {
				next = it.ready.first // a callback of settle has removed next from the list
			}
		} else if e.owed == 0 {
			it.ready.drop(e, linkReady)
		}
		e = next
	}
	return true
}

// postOwed posts the packets that an endpoint owes, of the given kinds. It reports whether the queue had
// room.
func (e *Endpoint) postOwed(which owed) bool {
	for e.owed&which != 0 {
		switch o := e.owed & which; {
		case o&oweCREQ != 0:
			if !e.postCREQ(e.psn, false) {
				return false
			}
			e.owed &^= oweCREQ
			e.state |= asked
			e.push(none, 0, nodeCREQ)
		case o&oweCREP != 0:
			if !e.postCREP(e.psn, true) {
				return false
			}
			e.owed &^= oweCREP
			e.push(none, 0, nodeCREP|nodeAsked)
		case o&oweResend != 0:
			if !e.resend() {
				return false
			}
		case o&oweKeepalive != 0:
			if e.Idle() {
				if !e.postKeepalive(e.psn, e.ask()) {
					return false
				}
				e.owed &^= oweAck | oweProbe
				e.push(none, 0, nodeKeepalive)
			}
			e.owed &^= oweKeepalive
		default:
			if !e.postShort() {
				return false
			}
		}
	}
	return true
}
