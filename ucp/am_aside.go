package ucp

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
)

// aside holds the messages of one peer that other messages overtake in a queue: those that are
// held back because the peer has too many replies to read (replies.go), or whose data is being
// fetched, and what the peer has sent behind them. They stay in order. A message is moved there at
// most once.
type aside struct {
	sender   any
	list     amList
	ready    bool       // it is in AMQueue.ready
	fetching *AMMessage // in front of the list, in no list itself
	shared   int        // its part of AMQueue.shared
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

// sender is what messages of one peer have in common; nil where nobody knows who has sent it.
func (m *AMMessage) sender() any {
	switch {
	case m.from.uct != nil:
		return m.from
	case m.ep != nil:
		return m.ep
	}
	return nil
}

// fetches reports whether the queue has to fetch the data of a message.
func (q *AMQueue) fetches(m *AMMessage) bool { return q.maxData >= 0 && m.state&amOffered != 0 }

// delays reports whether a message cannot leave the queue when it is the oldest.
func (q *AMQueue) delays(m *AMMessage) bool { return q.fetches(m) || m.heldBack() }

// front returns the next message to be taken, nil if there is none.
func (q *AMQueue) front() *AMMessage {
	m := q.list.head
	if q.asides == nil && (m == nil || !q.delays(m)) {
		return m
	}
	return q.frontBeside()
}

// frontBeside is front for a queue with messages that are overtaken, or have to be. Messages
// that are overtaken no longer come first.
//
//go:noinline
func (q *AMQueue) frontBeside() *AMMessage {
	for {
		if m := q.frontReady(); m != nil {
			return m
		}
		m := q.list.head
		if m == nil {
			return nil
		}
		key := m.sender()
		a := q.asides[key]
		if a == nil && !q.delays(m) {
			return m
		}
		if a == nil {
			if q.asides == nil {
				q.asides = make(map[any]*aside)
			}
			a = &aside{sender: key}
			q.asides[key] = a
		}
		q.list.remove(m)
		a.list.push(m)
		if m.heldBack() {
			d := m.debt()
			m.state |= amAside
			d.kept += m.charged
			d.check()
		}
		q.makeReady(a)
	}
}

// makeReady has the queue look at the messages of an aside again.
func (q *AMQueue) makeReady(a *aside) {
	if !a.ready {
		a.ready = true
		q.ready = append(q.ready, a)
	}
}

// frontReady returns the next message of the asides that have one, and begins to fetch the data of
// those that need that.
func (q *AMQueue) frontReady() *AMMessage {
	for len(q.ready) > 0 {
		a := q.ready[0]
		m := a.list.head
		if m != nil && a.fetching == nil && !q.delays(m) {
			return m
		}
		a.ready = false
		q.ready[0] = nil
		q.ready = q.ready[1:]
		switch {
		case a.fetching != nil || m != nil && m.heldBack():
		case m != nil:
			q.fetch(a, m)
		default:
			delete(q.asides, a.sender)
		}
	}
	if len(q.asides) == 0 {
		q.asides, q.ready = nil, nil
	}
	return nil
}

// dropOf gives up the messages of an account.
func (a *aside) dropOf(d *replyDebt) {
	for m := a.list.head; m != nil; {
		next := m.next
		if m.debt() == d {
			m.giveUp(ucs.OK)
		}
		m = next
	}
}

// giveUp drops a message of a queue. The status is for its sender, if the data is still there.
func (m *AMMessage) giveUp(status ucs.Status) {
	m.leaveQueue()
	m.refuse(status)
	m.drop()
}

// giveUpFetch takes a message that is being fetched for a source off its account. It is dropped when
// the fetch ends.
func (a *aside) giveUpFetch(s *source) {
	if m := a.fetching; m != nil && m.from == s {
		m.discharge()
		m.state |= amGivenUp
	}
}

// sharedPart is the part of UCX_MAX_UNEXP_BYTES that a queue fetches at once from peers in shared
// memory. They share one account, as nothing tells them apart, and one that offers data and never
// gives it must not use that up.
const sharedPart = 4

// mayFetch reports whether the first message of an aside may be fetched now, and reserves its part.
func (q *AMQueue) mayFetch(a *aside, m *AMMessage) bool {
	if m.from.uct != nil {
		return true
	}
	if q.shared > 0 && q.shared+m.length > q.w.maxHeld/sharedPart {
		q.stalled = append(q.stalled, a)
		return false
	}
	a.shared = m.length
	q.shared += a.shared
	return true
}

// endFetch takes the message out of an aside that was being fetched, and has those that were
// stalled looked at again.
func (q *AMQueue) endFetch(a *aside) *AMMessage {
	m := a.fetching
	a.fetching = nil
	if a.shared > 0 {
		q.shared -= a.shared
		a.shared = 0
		for _, s := range q.stalled {
			q.makeReady(s)
		}
		q.stalled = nil
	}
	q.makeReady(a)
	return m
}

// fetch begins to fetch the data of a message, the first of its peer's, into memory that the peer
// pays for.
func (q *AMQueue) fetch(a *aside, m *AMMessage) {
	w := q.w
	if m.length > q.maxData {
		m.giveUp(ucs.ErrExceedsLimit)
		q.makeReady(a)
		return
	}
	if !q.mayFetch(a, m) {
		return
	}
	m.leaveQueue() // making room may drop what is in queues
	a.fetching = m // and may call the program
	if err := w.charge(m.from, m.length); err != nil || m.state&amGivenUp != 0 {
		q.endFetch(a)
		m.refuse(ucs.ErrNoMemory)
		m.drop()
		return
	}
	m.makeRoom()
	r := w.getRequest()
	r.state, r.mode = stateInCall|stateParams|stateAMRecv, 0
	r.onRecv = func(r *Request, err error, _ int, _ any) {
		r.free()
		q.fetched(a, err)
		q.serve()
	}
	err := r.data.initRecv(m.data, nil)
	if err != nil {
		w.dropRequest(r)
		q.fetched(a, err)
		return
	}
	r.info = TagRecvInfo{Length: m.length}
	was := w.asker
	w.asker = m.from
	w.fetch(r, &m.rndv, m.key)
	w.asker = was
	if r, err = r.result(); r == nil {
		q.fetched(a, err)
	}
}

// makeRoom gives the message memory for the data that is to be fetched. It is none of the worker's
// pool: a peer can say that it has written data, and what was there before would be delivered.
func (m *AMMessage) makeRoom() {
	n := m.length
	b := make([]byte, n+max(m.w.params.AMAlignment-1, 0))
	off := 0
	if len(b) > 0 {
		off = m.w.misaligned(b)
	}
	m.data = b[off : off+n : off+n]
	m.charge(len(b))
}

// fetched puts a message whose data is here before those that its peer has sent behind it.
func (q *AMQueue) fetched(a *aside, err error) {
	m := q.endFetch(a)
	switch {
	case err != nil:
		q.w.ctx.log.Debug("active message dropped: its data could not be fetched", zap.String("worker", q.w.name), zap.Error(err))
		m.state &^= amOffered
		m.drop()
	case q.closed || m.state&amGivenUp != 0:
		m.state &^= amOffered
		m.drop()
	default:
		m.state &^= amOffered
		a.list.pushFront(m)
		link(&m.from.actives, m, (*AMMessage).place)
	}
}
