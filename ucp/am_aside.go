package ucp

// aside holds the messages of one peer that a queue holds back, because the peer has too many
// replies to read (replies.go). They stay in order, and messages of other peers overtake them.
// A message is moved there at most once.
type aside struct {
	debt  *replyDebt
	list  amList
	ready bool // it is in AMQueue.ready
}

// debt returns the account of the endpoint that leads to the sender, nil if there is none.
func (m *AMMessage) debt() *replyDebt {
	if m.ep == nil || m.ep.bill == nil {
		return nil
	}
	return m.ep.bill.debt
}

// heldBack reports whether the message has to wait until its sender has read replies.
func (m *AMMessage) heldBack() bool {
	d := m.debt()
	return d != nil && d.holding
}

// front returns the next message to be taken, nil if there is none.
func (q *AMQueue) front() *AMMessage {
	m := q.list.head
	if q.asides == nil && (m == nil || !m.heldBack()) {
		return m
	}
	return q.frontBeside()
}

// frontBeside is front for a queue with messages that are held back, or have to be. Messages
// that are held back no longer come first.
//
//go:noinline
func (q *AMQueue) frontBeside() *AMMessage {
	for len(q.ready) > 0 {
		a := q.ready[0]
		if !a.debt.holding {
			if m := a.list.head; m != nil {
				return m
			}
			delete(q.asides, a.debt)
		}
		a.ready = false
		q.ready[0] = nil
		q.ready = q.ready[1:]
	}
	if len(q.asides) == 0 {
		q.asides, q.ready = nil, nil
	}
	for m := q.list.head; m != nil; m = q.list.head {
		if !m.heldBack() {
			return m
		}
		d := m.debt()
		a := q.asides[d]
		if a == nil {
			if q.asides == nil {
				q.asides = make(map[*replyDebt]*aside)
			}
			a = &aside{debt: d}
			q.asides[d] = a
		}
		q.list.remove(m)
		m.state |= amAside
		d.kept += m.charged
		a.list.push(m)
		d.check()
	}
	return nil
}
