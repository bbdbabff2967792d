//go:build linux

package flow

// Dispatch posts what is owed. It reports whether that is all; otherwise the queue is
// full, and who is next will be first the next time.
func (it *Iface) Dispatch() bool {
	for it.ready.first != nil {
		e := it.ready.first
		if !e.pay() {
			it.ready.drop(e, linkReady)
			it.ready.push(e, linkReady)
			return false
		}
		it.ready.drop(e, linkReady)
		e.settle()
	}
	return true
}

// pay posts what an endpoint owes. It reports whether the queue had room.
func (e *Endpoint) pay() bool {
	for e.owed != 0 {
		switch o := e.owed; {
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
			if !e.tell() {
				return false
			}
		}
	}
	return true
}
