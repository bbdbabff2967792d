package life

import "fmt"

// opKind is a kind of operation.
type opKind uint8

const (
	none  opKind = iota
	eager        // done when it has left
	offer        // done when the peer has matched it, fetched its data and said so: rendezvous, synchronous send
	put          // done when the peer has answered: what goes by messages
)

// phase is how far an operation is.
type phase uint8

const (
	notStarted phase = iota
	needsID          // waits for the peer's id
	underWay         // sent
	atPeer           // the peer has it and has not matched it
	fetching         // the peer has matched it and reads the data
	succeeded
	canceled
	failed
)

func (p phase) ended() bool   { return p >= succeeded }
func (p phase) pending() bool { return p > notStarted && p < succeeded }

// word is what travels.
type word uint8

const (
	request word = iota + 1 // asks for the other end, and names this one
	reply                   // names the other end
	message                 // the operation
	answer                  // to the operation
	saidReleased
	saidRemoved
	endOfLanes
)

var wordNames = [...]string{"", "request", "reply", "message", "answer", "released", "removed", "end of lanes"}

// side is an end with what the model keeps for it.
type side struct {
	end     End
	exists  bool // the end has been made
	op      phase
	matched bool // the peer has matched the operation
	fetches bool // this side fetches the data of the other's
	awaits  bool // for the peer's disconnect
	sent    bool // what was to be told
	flushing,
	telling, // what is being told: 0, saidReleased or saidRemoved
	handled uint8 // how often the handler was called
	shelved bool
	closing bool  // a close has been asked for and has not ended
	closed  uint8 // ends of closes: 0, closeOK or closeFailed
	dead    bool
	did     acts // what the application has done
	out     [5]word
	manager bool // a disconnect is under way to the peer
	said    bool // it has disconnected
}

const (
	closeOK uint8 = iota + 1
	closeFailed
)

// world is everything.
type world struct {
	side [2]side
	// violent: an end was released by force, evicted, or lost with its process; resigned:
	// an application gave up.
	violent, gaveUp bool
}

// model carries out duties.
type model struct {
	s     *scenario
	table rules
	w     world
	flaw  string
}

// step is something that can happen.
type step struct {
	name   string
	choice bool // an application's; it need not happen
	do     func(*model)
}

// begin is the world before anything has happened: a's application holds an end. Where a
// manager has connected them, b's does as well.
func (s *scenario) begin() (w world) {
	a, b := &w.side[0], &w.side[1]
	a.exists = true
	a.end = End{Stage: Open, Managed: s.managed, Deaf: s.deaf}
	if s.managed {
		b.exists = true
		a.end.Peer = PeerHere
		a.end.Patient = s.deaf
		b.end = End{Stage: Open, Peer: PeerHere, Managed: true, Patient: true, Deaf: s.deaf}
	}
	return w
}

// busy reports whether the end has to stay for an operation of its own or a fetch.
func (m *model) busy(k int) bool {
	return m.w.side[k].op.pending() || m.w.side[k].fetches
}

// steps are all that can happen now.
func (m *model) steps(w *world) (list []step) {
	m.w = *w
	add := func(choice bool, do func(*model), format string, args ...any) {
		list = append(list, step{fmt.Sprintf(format, args...), choice, do})
	}
	for k := range w.side {
		e, p := &w.side[k], &w.side[1-k]
		name := string(rune('a' + k))
		if e.out[0] != 0 {
			add(false, func(m *model) { m.deliver(k) }, "%s's %s arrives", name, wordNames[e.out[0]])
		}
		if e.manager && (e.out[0] == 0 || e.out[0] == endOfLanes) { // package ucp receives first what was sent before
			add(false, func(m *model) { m.w.side[k].manager = false; m.event(1-k, Left) }, "%s's disconnect arrives", name)
		}
		if p.dead && e.exists && !e.dead && p.out[0] == 0 && e.end.Stage != Gone && e.end.Stage != Failed {
			add(false, func(m *model) { m.event(k, Lost) }, "%s notices the death", name)
		}
		// Where a close in good order has nobody to tell, the keepalive asks.
		if (m.s.deaf || p.end.Peer < PeerHere) && p.exists && p.end.Stage == Gone && p.out[0] == 0 && e.exists && !e.dead && e.end.Stage != Gone && e.end.Stage != Failed {
			add(false, func(m *model) { m.event(k, Removed) }, "%s's keepalive finds no end", name)
		}
		if e.dead || !e.exists {
			continue
		}
		if e.flushing != 0 {
			add(false, func(m *model) { m.w.side[k].flushing = 0; m.event(k, Flushed) }, "%s has flushed", name)
		}
		if e.sent {
			add(false, func(m *model) { m.w.side[k].sent = false; m.event(k, Told) }, "%s hears that it has told", name)
		}
		if e.awaits {
			add(false, func(m *model) { m.w.side[k].awaits = false; m.event(k, Waited) }, "%s has waited", name)
		}
		if e.telling != 0 {
			add(false, func(m *model) {
				w := word(m.w.side[k].telling)
				m.w.side[k].telling = 0
				m.send(k, w)
				m.w.side[k].sent = true // what the peer says to it may come first
			}, "%s tells %s", name, wordNames[e.telling])
		}
		if e.fetches && e.end.Stage != Gone && e.end.Stage != Failed {
			add(false, func(m *model) { m.fetched(k) }, "%s has fetched", name)
		}
		if m.s.kinds[k] != none && e.op == notStarted && e.end.Usable() {
			add(true, func(m *model) { m.start(k) }, "%s starts an operation", name)
		}
		if e.end.Peer >= PeerHere && !e.end.Managed && e.did&actAgain == 0 {
			add(true, func(m *model) { m.w.side[k].did |= actAgain; m.event(k, Named) }, "%s is told the id again", name)
		}
		if m.s.acts[k]&actMatch != 0 && p.op == atPeer && e.fetchable() {
			add(true, func(m *model) { m.match(k) }, "%s matches", name)
		}
		for _, c := range []struct {
			act  acts
			ev   Event
			can  bool
			name string
		}{
			{actClose, Close, e.end.Stage == Open || e.end.Stage == Failed, "closes"},
			{actLeave, Leave, e.end.Stage != Gone, "shuts down its worker"},
			{actGiveUp, GiveUp, e.closing, "gives up"},
			{actForce, Force, e.end.Stage != Gone, "closes by force"},
			{actEvict, Evict, e.end.Stage == Serving, "evicts"},
			{actClaim, Claim, e.end.Stage == Serving, "claims"},
		} {
			if m.s.acts[k]&c.act == 0 || e.did&c.act != 0 || !c.can {
				continue
			}
			add(true, func(m *model) {
				e := &m.w.side[k]
				e.did |= c.act
				switch c.ev {
				case Close, Leave:
					if e.end.Stage == Open || e.end.Stage == Serving {
						e.closing = true
					}
				case Force, Evict:
					m.w.violent = true
				case GiveUp:
					m.w.gaveUp = true
				}
				m.event(k, c.ev)
			}, "%s %s", name, c.name)
		}
		if m.s.acts[k]&actDie != 0 && e.did&actDie == 0 {
			add(true, func(m *model) { m.die(k) }, "%s dies", name)
		}
	}
	return list
}

// send puts a word behind those that are under way.
func (m *model) send(k int, what word) {
	out := &m.w.side[k].out
	for i := range out {
		if out[i] == 0 {
			out[i] = what
			return
		}
	}
	m.flaw = "more words under way than expected"
}

// event reports something to an end and does what is owed.
func (m *model) event(k int, ev Event) {
	e := &m.w.side[k]
	if !e.exists || e.dead || e.end.Stage == Gone {
		return
	}
	if ev == Lost {
		e.telling = 0
	}
	was := e.end
	next, do := m.table.next(e.end, ev, m.busy(k))
	e.end = next
	if m.flaw = m.forbidden(k, ev, was, do); m.flaw != "" {
		return
	}
	e.shelved = e.shelved || do&Shelve != 0
	if do&Cancel != 0 {
		m.endOp(k, canceled)
	}
	if do&Fail != 0 {
		m.endOp(k, failed)
	}
	if do&Flush != 0 {
		e.flushing = 1
	}
	if do&(TellReleased|TellRemoved) != 0 && (e.telling != 0 || e.sent) {
		m.flaw = "two words are being told at once"
	}
	if do&TellReleased != 0 {
		e.telling = uint8(saidReleased)
	}
	if do&TellRemoved != 0 {
		e.telling = uint8(saidRemoved)
	}
	if do&SayRemoved != 0 && e.end.Peer != PeerUnknown && !e.end.Deaf && !e.end.Managed {
		m.send(k, saidRemoved)
	}
	if do&Await != 0 {
		e.awaits = true
	}
	if do&Disconnect != 0 && e.end.Managed && !e.said {
		e.said, e.manager = true, true
	}
	if do&CallHandler != 0 {
		e.handled++
		if !was.Held() {
			m.flaw = "the handler is called for an end that nobody holds"
		}
	}
	if do&CloseDone != 0 && e.closing {
		m.endClose(k, closeOK)
	}
	if do&Release != 0 {
		m.release(k)
	}
	if next.Stage == Gone && do&Release == 0 {
		m.flaw = "an end is gone and was not released"
	}
	if (next.Stage == Draining || next.Stage == Serving) && !m.busy(k) && m.flaw == "" && (do&(Cancel|Fail) != 0 || was.Stage != next.Stage) {
		m.event(k, Quiet)
	}
}

// forbidden says which rule of its own an end breaks.
func (m *model) forbidden(k int, ev Event, was End, do Duty) string {
	e := &m.w.side[k]
	now, tells := e.end, do&(TellReleased|TellRemoved|SayRemoved) != 0
	switch {
	case do&Flush != 0 && m.busy(k):
		return "the lanes are flushed before the operations have ended"
	case do&(TellReleased|TellRemoved) != 0 && m.busy(k):
		return "the peer is told with an operation under way"
	case do&(TellReleased|TellRemoved) != 0 && (now.Deaf || now.Managed):
		return "a peer is told that does not understand it"
	case do&(TellReleased|TellRemoved) != 0 && now.Peer < PeerHere:
		return "a peer is told whose id is not known"
	case (ev == Force || ev == Evict) && now.Stage != Gone:
		return "an end is not released in the call"
	case now.Final && now.Stage == Parting:
		return "a worker that is shut down is patient"
	case do&Disconnect != 0 && was.Patient && !was.Final && was.Stage == Flushing:
		return "a patient end disconnects without waiting"
	case ev == Left && was.Stage == Open && !m.busy(k) && do&CallHandler != 0:
		return "a disconnect by which nothing is lost is a failure at once"
	case ev == Left && was.Stage == Open && m.busy(k) && do&CallHandler == 0:
		return "an operation is lost and the handler is not called"
	case ev == GiveUp && e.op.pending() && was.Stage == Draining && do&Cancel == 0:
		return "an operation goes on though the application has given up"
	case ev == Claim && (now.Stage == Open) == was.Closed:
		return "an end is claimed that was closed, or is not that was not"
	case (ev == Close || ev == Leave || ev == Force) && !now.Closed && was.Stage != Leaving || was.Closed && !now.Closed:
		return "an end is closed and is not marked as that"
	case (now.Final || e.did&actLeave != 0) && now.Stage == Serving:
		return "an end serves in a worker that is shut down"
	case now.Deaf && now.Closed && now.Stage == Serving && now.Peer == PeerHere && do&Shelve == 0 && !e.shelved:
		return "an end is kept for a peer that will never say that it has gone, and nobody can find it"
	case now.Stage == CloseWait && was.Stage == Open && do&Fail == 0:
		return "operations go on toward a peer that has gone"
	case now.Stage == Failed && was.Stage != Failed && do&CallHandler == 0:
		return "an end has failed and the handler is not called"
	case (ev == Flushed || ev == Waited || ev == Told) && !m.busy(k) && now.Stage != was.Stage && (now.Stage == Draining || now.Stage == Flushing):
		return "the lanes are flushed again, though nothing is under way"
	case now.Stage == Serving && was.Stage != Serving && e.closing && do&CloseDone == 0:
		return "a close waits for nothing"
	case ev == Leave && was.Stage == Serving && was.Closed && !m.busy(k) && now.Stage == Draining:
		return "the lanes are flushed again behind a close"
	case was.Stage == Failed && (ev == Close || ev == Leave) && now.Stage != Gone:
		return "an end that has failed cannot be closed"
	case tells && was.Stage == Gone:
		return "an end that is gone speaks"
	}
	return ""
}

// release gives everything back.
func (m *model) release(k int) {
	e := &m.w.side[k]
	if m.busy(k) {
		if e.op.pending() {
			m.flaw = "released with an operation under way"
		}
		if e.fetches && !m.w.violent && !m.w.gaveUp {
			m.flaw = "released while it fetches"
		}
		e.fetches = false // with an error
	}
	e.flushing, e.telling, e.awaits, e.sent = 0, 0, false, false
	if e.closing {
		m.endClose(k, closeFailed)
	}
	if m.s.managed && !e.said {
		e.said, e.manager = true, true
	}
	if !m.s.silent {
		m.send(k, endOfLanes)
	}
}

// fetchable reports whether a message whose data has to be fetched over the end can be
// matched. Behind the last word nothing can.
func (e *side) fetchable() bool {
	return e.exists && !e.dead && e.end.Stage != Gone && e.end.Stage != Failed && e.end.Stage != Leaving
}

// endClose ends a close.
func (m *model) endClose(k int, how uint8) {
	e := &m.w.side[k]
	e.closing = false
	e.closed = how
	if how == closeOK && e.op.pending() {
		m.flaw = "a close has succeeded with an operation under way"
	}
	if how == closeFailed && !m.w.violent && m.w.side[1-k].did&actLeave == 0 {
		m.flaw = "a close fails though nothing has happened"
	}
}

// endOp ends the operation of an end before its time.
func (m *model) endOp(k int, how phase) {
	e := &m.w.side[k]
	if !e.op.pending() {
		return
	}
	if e.matched && !m.w.violent && !m.w.gaveUp {
		m.flaw = "an operation that was matched ends without success"
	}
	e.op = how
}

// succeed ends it well.
func (m *model) succeed(k int) {
	e := &m.w.side[k]
	if e.op.ended() {
		return // the answer to one that was canceled
	}
	e.op = succeeded
	if !m.busy(k) {
		m.event(k, Quiet)
	}
}

// start starts the operation.
func (m *model) start(k int) {
	e := &m.w.side[k]
	if m.s.kinds[k] == eager {
		m.send(k, message)
		e.op = succeeded
		return
	}
	e.op = needsID
	m.goOn(k)
}

// goOn sends the operation when the peer's id is known, and asks for it otherwise.
func (m *model) goOn(k int) {
	e := &m.w.side[k]
	switch {
	case e.op != needsID:
	case e.end.Peer == PeerUnknown:
		m.send(k, request)
		m.event(k, Asked)
	case e.end.Peer != PeerAsked:
		e.op = underWay
		m.send(k, message)
	}
}

// deliver hands over the first word of an end to the other side.
func (m *model) deliver(k int) {
	from := &m.w.side[k]
	what := from.out[0]
	copy(from.out[:], from.out[1:])
	from.out[len(from.out)-1] = 0
	e := &m.w.side[1-k]
	if e.dead {
		return
	}
	there := e.exists && e.end.Stage != Gone && e.end.Stage != Failed
	switch what {
	case request:
		if !e.exists {
			e.exists, e.end = true, End{Deaf: m.s.deaf}
			m.event(1-k, Named)
			m.send(1-k, reply)
			break
		}
		if there {
			m.event(1-k, Named)
			m.goOn(1 - k)
		}
	case reply:
		if there {
			m.event(1-k, Named)
			m.goOn(1 - k)
		}
	case message:
		switch m.s.kinds[k] {
		case offer:
			if from.op == underWay {
				from.op = atPeer
			}
		case put:
			if there {
				m.send(1-k, answer)
			}
		}
	case answer:
		if from := &m.w.side[1-k]; from.op == underWay || from.op == atPeer {
			m.succeed(1 - k)
		}
	case saidReleased:
		m.event(1-k, Released)
	case saidRemoved:
		m.event(1-k, Removed)
	case endOfLanes:
		m.event(1-k, Lost)
	}
}

// match is a receive of side k for the other side's operation.
func (m *model) match(k int) {
	m.w.side[k].fetches = true
	m.w.side[1-k].op, m.w.side[1-k].matched = fetching, true
}

// fetched ends the fetch.
func (m *model) fetched(k int) {
	m.w.side[k].fetches = false
	if p := &m.w.side[1-k]; p.op == fetching {
		p.op = underWay
	}
	m.send(k, answer)
	if !m.busy(k) {
		m.event(k, Quiet)
	}
}

// die ends the process of a side. What it has sent arrives.
func (m *model) die(k int) {
	e := &m.w.side[k]
	m.w.violent = true
	e.dead = true
	e.did |= actDie
	e.flushing, e.telling, e.closing, e.awaits, e.sent = 0, 0, false, false, false
	if e.op.pending() {
		e.op = failed
	}
	e.fetches = false
	if m.s.managed && !e.said {
		e.said, e.manager = true, true
	}
}

// inconsistent says what must never be so.
func (m *model) inconsistent() string {
	for k := range m.w.side {
		e := &m.w.side[k]
		switch {
		case e.handled > 1:
			return "the handler is called twice"
		case e.handled > 0 && e.did&(actClose|actForce) != 0 && e.end.Stage != Gone:
			return "" // it was closed after the failure
		case e.exists && !e.dead && e.end.Stage == Gone && e.op.pending():
			return "an operation is left behind"
		}
	}
	return ""
}

// unfinished says what is missing where nothing happens any more by itself.
func (m *model) unfinished() string {
	for k := range m.w.side {
		e, p := &m.w.side[k], &m.w.side[1-k]
		if e.dead || !e.exists {
			continue
		}
		peerHeld := p.exists && !p.dead && p.end.Held()
		switch {
		case e.end.Stage == CloseWait:
			return fmt.Sprintf("the application of %c is not told that the peer has gone", 'a'+k)
		case e.closing && !m.mayWait(k):
			return fmt.Sprintf("the close of %c does not end", 'a'+k)
		case e.end.Stage == Gone || e.end.Held():
		case e.end.Closing() && m.mayWait(k):
		case e.end.Stage == Serving && (peerHeld && !p.said || m.s.deaf && !p.dead):
		case e.end.Stage == Serving && (m.mayWait(k) || m.mayWait(1-k)):
		case e.end.Stage == Serving && m.s.silent && p.end.Stage == Gone && e.end.Deaf:
		default:
			return fmt.Sprintf("the end of %c stays at stage %d for nobody", 'a'+k, e.end.Stage)
		}
		if e.op.pending() && e.op != atPeer && e.op != needsID && !m.s.deaf {
			return fmt.Sprintf("the operation of %c does not end", 'a'+k)
		}
		if e.handled > 0 && !m.w.violent && m.w.side[1-k].did&(actLeave|actClose) == 0 {
			return fmt.Sprintf("the handler of %c was called, and nothing has happened", 'a'+k)
		}
		if e.handled > 0 && !m.s.managed && !m.w.violent && m.w.side[1-k].did&actLeave == 0 {
			return fmt.Sprintf("the handler of %c was called for a close", 'a'+k)
		}
	}
	return ""
}

// mayWait reports whether a close of an end waits for an application: for one to match,
// or, over a manager, for the other one to close.
func (m *model) mayWait(k int) bool {
	e, p := &m.w.side[k], &m.w.side[1-k]
	if e.op == atPeer && p.fetchable() {
		return true
	}
	return m.s.managed && e.end.Stage == Leaving && p.end.Stage == Draining && m.mayWait(1-k)
}
