package life

import "fmt"

// opKind is a kind of operation.
type opKind uint8

const (
	none  opKind = iota
	eager        // complete when it is sent
	offer        // complete when the peer has fetched and answered it: rendezvous, synchronous send
	put          // complete when the peer has answered: put by messages
)

// phase is the progress of an operation.
type phase uint8

const (
	notStarted phase = iota
	needsID          // waits for the peer's id
	underWay         // sent
	atPeer           // arrived at the peer, not matched yet
	fetching         // matched by the peer, which reads the data
	succeeded
	canceled
	failed
)

func (p phase) ended() bool   { return p >= succeeded }
func (p phase) pending() bool { return p > notStarted && p < succeeded }

// word is a message over the lanes.
type word uint8

const (
	request word = iota + 1 // asks for the other endpoint, and names this one
	reply                   // names the other endpoint
	message                 // the operation
	answer                  // the answer to the operation
	saidReleased
	saidRemoved
	endOfLanes
)

var wordNames = [...]string{"", "request", "reply", "message", "answer", "released", "removed", "end of lanes"}

// side is an endpoint with the state that the model keeps for it.
type side struct {
	end     End
	exists  bool // the endpoint has been created
	op      phase
	matched bool // the peer has matched the operation
	fetches bool // this side fetches the data of the other side's operation
	awaits  bool // waits for the peer's disconnect
	sent    bool // "released" or "removed" was sent, and MessageSent is due
	flushing,
	telling, // the message to send: 0, saidReleased or saidRemoved
	handled uint8 // number of calls of the error handler
	shelved bool
	closing bool  // a close is in progress
	closed  uint8 // result of the last close: 0, closeOK or closeFailed
	dead    bool
	did     acts // what the application has done
	out     [5]word
	manager bool // a disconnect is on its way to the peer
	said    bool // it has disconnected
}

const (
	closeOK uint8 = iota + 1
	closeFailed
)

// world is the state of both sides and of the messages between them.
type world struct {
	side [2]side
	// violent: an endpoint was released by force, evicted, or lost with its process. gaveUp: an
	// application gave up.
	violent, gaveUp bool
}

// model applies the table to a world and carries out the duties.
type model struct {
	s     *scenario
	table rules
	w     world
	flaw  string
}

// step is something that can happen next.
type step struct {
	name   string
	choice bool // an application's decision, which need not happen
	do     func(*model)
}

// begin returns the initial world: the application of a holds an endpoint. If a manager has
// connected them, so does the application of b.
func (s *scenario) begin() (w world) {
	a, b := &w.side[0], &w.side[1]
	a.exists = true
	a.end = End{Stage: Open, Managed: s.managed, NoCloseMessages: s.deaf}
	if s.managed {
		b.exists = true
		a.end.Peer = PeerHere
		a.end.PeerDisconnectsFirst = s.deaf
		b.end = End{Stage: Open, Peer: PeerHere, Managed: true, PeerDisconnectsFirst: true, NoCloseMessages: s.deaf}
	}
	return w
}

// busy reports whether an operation or a fetch in progress needs the endpoint.
func (m *model) busy(k int) bool {
	return m.w.side[k].op.pending() || m.w.side[k].fetches
}

// steps returns everything that can happen next.
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
		// Package ucp first receives what was sent before and has arrived. The message "released" may
		// be lost and sent again, and then arrives after the disconnect.
		if e.manager && (e.out[0] == 0 || e.out[0] == endOfLanes || e.out[0] == saidReleased) {
			add(false, func(m *model) { m.w.side[k].manager = false; m.event(1-k, Left) }, "%s's disconnect arrives", name)
		}
		if p.dead && e.exists && !e.dead && p.out[0] == 0 && e.end.Stage != Gone && e.end.Stage != Failed {
			add(false, func(m *model) { m.event(k, Lost) }, "%s notices the death", name)
		}
		// If an endpoint has ended without a peer that could be notified, the other side's
		// keepalive finds out.
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
			add(false, func(m *model) { m.w.side[k].sent = false; m.event(k, MessageSent) }, "%s hears that it has told", name)
		}
		if e.awaits {
			add(false, func(m *model) { m.w.side[k].awaits = false; m.event(k, Waited) }, "%s has waited", name)
		}
		if e.telling != 0 {
			add(false, func(m *model) {
				w := word(m.w.side[k].telling)
				m.w.side[k].telling = 0
				m.send(k, w)
				m.w.side[k].sent = true // an answer of the peer may arrive before MessageSent
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
			{actLeave, ShutdownClose, e.end.Stage != Gone, "shuts down its worker"},
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
				case Close, ShutdownClose:
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

// send appends a word to those on their way.
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

// event reports an event to an endpoint and carries out the duties.
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
	e.shelved = e.shelved || do&Retain != 0
	if do&Cancel != 0 {
		m.endOp(k, canceled)
	}
	if do&Fail != 0 {
		m.endOp(k, failed)
	}
	if do&Flush != 0 {
		e.flushing = 1
	}
	if do&(SendReleased|SendRemoved) != 0 && (e.telling != 0 || e.sent) {
		m.flaw = "two words are being told at once"
	}
	if do&SendReleased != 0 {
		e.telling = uint8(saidReleased)
	}
	if do&SendRemoved != 0 {
		e.telling = uint8(saidRemoved)
	}
	if do&TrySendRemoved != 0 && e.end.Peer != PeerUnknown && !e.end.NoCloseMessages && !e.end.Managed {
		m.send(k, saidRemoved)
	}
	if do&Await != 0 {
		e.awaits = true
	}
	if do&Disconnect != 0 && e.end.Managed && !e.said {
		e.said, e.manager = true, true
		if next.Stage == Leaving && !next.NoCloseMessages {
			m.send(k, saidReleased)
		}
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
		m.event(k, OperationsDone)
	}
}

// forbidden returns the rule that an endpoint violates after an event, if any.
func (m *model) forbidden(k int, ev Event, was End, do Duty) string {
	e := &m.w.side[k]
	now, tells := e.end, do&(SendReleased|SendRemoved|TrySendRemoved) != 0
	switch {
	case do&Flush != 0 && m.busy(k):
		return "the lanes are flushed before the operations have ended"
	case do&(SendReleased|SendRemoved) != 0 && m.busy(k):
		return "the peer is told with an operation under way"
	case do&(SendReleased|SendRemoved) != 0 && (now.NoCloseMessages || now.Managed):
		return "a peer is told that does not understand it"
	case do&(SendReleased|SendRemoved) != 0 && now.Peer < PeerHere:
		return "a peer is told whose id is not known"
	case (ev == Force || ev == Evict) && now.Stage != Gone:
		return "an end is not released in the call"
	case now.ShuttingDown && now.Stage == Parting:
		return "a worker that is shut down is patient"
	case do&Disconnect != 0 && was.PeerDisconnectsFirst && !was.ShuttingDown && was.Stage == Flushing:
		return "a patient end disconnects without waiting"
	case ev == Left && was.Stage == Open && !m.busy(k) && do&CallHandler != 0:
		return "a disconnect by which nothing is lost is a failure at once"
	case ev == Left && was.Stage == Open && m.busy(k) && do&CallHandler == 0:
		return "an operation is lost and the handler is not called"
	case ev == GiveUp && e.op.pending() && was.Stage == Draining && do&Cancel == 0:
		return "an operation goes on though the application has given up"
	case ev == Claim && (now.Stage == Open) == was.Closed:
		return "an end is claimed that was closed, or is not that was not"
	case (ev == Close || ev == ShutdownClose || ev == Force) && !now.Closed && was.Stage != Leaving || was.Closed && !now.Closed:
		return "an end is closed and is not marked as that"
	case (now.ShuttingDown || e.did&actLeave != 0) && now.Stage == Serving:
		return "an end serves in a worker that is shut down"
	case now.NoCloseMessages && now.Closed && now.Stage == Serving && now.Peer == PeerHere && do&Retain == 0 && !e.shelved:
		return "an end is kept for a peer that will never say that it has gone, and nobody can find it"
	case now.Stage == CloseWait && was.Stage == Open && do&Fail == 0:
		return "operations go on toward a peer that has gone"
	case now.Stage == Failed && was.Stage != Failed && do&CallHandler == 0:
		return "an end has failed and the handler is not called"
	case (ev == Flushed || ev == Waited || ev == MessageSent) && !m.busy(k) && now.Stage != was.Stage && (now.Stage == Draining || now.Stage == Flushing):
		return "the lanes are flushed again, though nothing is under way"
	case now.Stage == Serving && was.Stage != Serving && e.closing && do&CloseDone == 0:
		return "a close waits for nothing"
	case ev == ShutdownClose && was.Stage == Serving && was.Closed && !m.busy(k) && now.Stage == Draining:
		return "the lanes are flushed again behind a close"
	case was.Stage == Failed && (ev == Close || ev == ShutdownClose) && now.Stage != Gone:
		return "an end that has failed cannot be closed"
	case tells && was.Stage == Gone:
		return "an end that is gone speaks"
	}
	return ""
}

// release releases an endpoint.
func (m *model) release(k int) {
	e := &m.w.side[k]
	if m.busy(k) {
		if e.op.pending() {
			m.flaw = "released with an operation under way"
		}
		if e.fetches && !m.w.violent && !m.w.gaveUp {
			m.flaw = "released while it fetches"
		}
		e.fetches = false // the fetch ends with an error
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

// fetchable reports whether a message whose data must be fetched over the endpoint can still be
// matched.
func (e *side) fetchable() bool {
	return e.exists && !e.dead && e.end.Stage != Gone && e.end.Stage != Failed && e.end.Stage != Leaving
}

// endClose ends the close in progress.
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

// endOp ends the operation of an endpoint without success.
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

// succeed completes the operation of an endpoint.
func (m *model) succeed(k int) {
	e := &m.w.side[k]
	if e.op.ended() {
		return // the answer to an operation that was canceled
	}
	e.op = succeeded
	if !m.busy(k) {
		m.event(k, OperationsDone)
	}
}

// start starts the operation of a side.
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

// goOn sends the operation if the peer's id is known, or else requests the id.
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

// deliver delivers the first word of a side to the other side.
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
			e.exists, e.end = true, End{NoCloseMessages: m.s.deaf}
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

// match matches the other side's operation with a receive of side k.
func (m *model) match(k int) {
	m.w.side[k].fetches = true
	m.w.side[1-k].op, m.w.side[1-k].matched = fetching, true
}

// fetched ends the fetch of a side.
func (m *model) fetched(k int) {
	m.w.side[k].fetches = false
	if p := &m.w.side[1-k]; p.op == fetching {
		p.op = underWay
	}
	m.send(k, answer)
	if !m.busy(k) {
		m.event(k, OperationsDone)
	}
}

// die ends the process of a side. What it sent before still arrives.
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

// inconsistent returns what is wrong with a world that must never be reached.
func (m *model) inconsistent() string {
	for k := range m.w.side {
		e := &m.w.side[k]
		switch {
		case e.handled > 1:
			return "the handler is called twice"
		case e.handled > 0 && e.did&(actClose|actForce) != 0 && e.end.Stage != Gone:
			return "" // the application closed it after the failure
		case e.exists && !e.dead && e.end.Stage == Gone && e.op.pending():
			return "an operation is left behind"
		}
	}
	return ""
}

// unfinished returns what is missing in a world in which nothing more happens by itself.
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
		case e.end.Stage == Serving && m.s.silent && p.end.Stage == Gone && e.end.NoCloseMessages:
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

// mayWait reports whether a close may wait for an application: for the peer's to match, or with a
// manager, for the peer's close, which itself waits.
func (m *model) mayWait(k int) bool {
	e, p := &m.w.side[k], &m.w.side[1-k]
	if e.op == atPeer && p.fetchable() {
		return true
	}
	return m.s.managed && e.end.Stage == Leaving && p.end.Stage == Draining && m.mayWait(1-k)
}
