package ucp

// aside is what a queue holds back of the messages that an endpoint has brought: its peer
// owes too much (replies.go). They stay in order, and those of other peers go before
// them. Each message is put there once at most.
type aside struct {
	debt  *replyDebt
	list  amList
	ready bool // it is in AMQueue.ready
}

// debt is that of the endpoint that leads to the sender, nil if there is none.
func (m *AMMessage) debt() *replyDebt {
	if m.ep == nil || m.ep.bill == nil {
		return nil
	}
	return m.ep.bill.debt
}

// heldBack reports whether the message has to wait for its sender to read.
func (m *AMMessage) heldBack() bool {
	d := m.debt()
	return d != nil && d.holding
}

// front is the message whose turn it is, nil if there is none.
func (q *AMQueue) front() *AMMessage {
	m := q.list.head
	if q.asides == nil && (m == nil || !m.heldBack()) {
		return m
	}
	return q.frontBeside()
}

// frontBeside is front where messages are held back, or have to be. Those that no longer
// are go first.
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
