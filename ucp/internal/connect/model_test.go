package connect

import (
	"cmp"
	"fmt"
	"slices"
)

// The model: two sides, each with at most one endpoint at a time, and what is on the way between
// them. An endpoint follows the table; the rest of a side does what package ucp, the transports and
// the application would do. Messages arrive in any order. They are lost only with the lane that
// carries them, and the sender is told of that loss, or with a connection manager both sides are. Of a
// reply that agrees on no lanes it is not known whether it was lost, so its request is repeated.

// word is what is on the way from one side to the other.
type word uint8

const (
	_ word = iota
	wordData
	wordNotification
	wordPreRequest
	wordRequest
	wordReply
	wordReconfig
	wordAck
	wordRemoved
	wordDisconnect
)

var wordNames = [...]string{
	"", "data", "notification", "PRE_REQUEST", "REQUEST", "REPLY", "REPLY_RECONFIG", "ACK", "EP_REMOVED", "disconnect",
}

// ends is the identity of one set of lanes of an endpoint: the number of the endpoint, and how many
// times its lanes were chosen.
type ends struct{ id, choice uint8 }

// packet is a word on the way.
type packet struct {
	word  word
	from  uint8 // side
	ends  ends  // of the sender
	lanes bool  // the message names transport endpoints
	to    uint8 // endpoint that the message is for; 0: none is known
}

// rank is a number for the order of packets.
func (p *packet) rank() uint64 {
	if p.word == 0 {
		return ^uint64(0)
	}
	n := uint64(p.word)<<40 | uint64(p.from)<<32 | uint64(p.ends.id)<<24 | uint64(p.ends.choice)<<16 | uint64(p.to)<<8
	if p.lanes {
		n++
	}
	return n
}

// byManager reports whether the connection manager carries the word.
func (p *packet) byManager() bool {
	return p.word == wordData || p.word == wordNotification || p.word == wordDisconnect
}

// side is one side of the model.
type side struct {
	end     End
	own     ends
	to      ends // what the lanes are connected with
	toward  ends // what the lanes were chosen for, zero if for no request
	named   uint8
	unsure  bool // the id may be another's
	replied bool // REPLY was accepted
	exists  bool
	made    bool // for a request of the other side; no application holds it
	lanes   bool // the endpoint has pairwise lanes
	aux     bool // the auxiliary lane is open
	started bool // operations may use the lanes
	failed  bool
	reset   bool // the other side has closed the connection of this side's request
	got     bool // the application has got its endpoint, the only one
}

// alive reports whether there is an endpoint that has not failed.
func (s *side) alive() bool { return s.exists && !s.failed }

// budget counts down what may happen only so many times.
type budget struct{ losses, faults, repeats, copies, closes, reconfigs, migrations uint8 }

// world is the state of everything. It is comparable.
type world struct {
	side [2]side
	net  [9]packet // in order; those without a word are last
	left budget
}

// scenario is the beginning of a world.
type scenario struct {
	name    string
	managed bool
	loop    bool                         // the endpoint of side 0 is connected with itself
	data    func() (server, client bool) // whether each decides to use all devices
	lanes   [2]bool                      // whether a choice of the side has pairwise lanes
	mayFail bool                         // the sides cannot agree
	mute    bool                         // the sides cannot be asked whether their endpoints exist
	order   int                          // of the uuids: -1 if that of side 0 is smaller, 0 for one worker
	budget  budget
}

// model is a world in which a step is taken.
type model struct {
	world
	s     *scenario
	table rules
	flaw  string
}

// step is something that can happen. A choice need not happen.
type step struct {
	format string
	args   []any
	choice bool
	do     func(*model)
}

func (s *step) String() string { return fmt.Sprintf(s.format, s.args...) }

// begin returns the first world of the scenario.
func (s *scenario) begin() (w world) {
	w.left = s.budget
	if s.managed {
		w.side[0] = side{end: End{Role: Client, Stage: Starting}, exists: true, own: ends{1, 1}, lanes: true, named: 0}
		w.side[1] = side{end: End{Role: Server, Stage: Starting}, exists: true, own: ends{1, 1}, lanes: true, named: 1, to: ends{1, 1}}
		w.side[1].end.AllDevices, _ = s.data()
		w.net[0] = packet{word: wordData, from: 1, ends: ends{1, 1}, lanes: true, to: 1}
	}
	return w
}

// steps lists what can happen in a world.
func (m *model) steps() (list []step) {
	add := func(choice bool, do func(*model), format string, args ...any) {
		list = append(list, step{format, args, choice, do})
	}
	for k := range m.net {
		p := m.net[k]
		if p.word == 0 || k > 0 && p == m.net[k-1] || p.byManager() && m.overtakes(k) {
			continue
		}
		what, who := wordNames[p.word], 'a'+p.from
		add(false, func(m *model) { m.take(k); m.deliver(p, false) }, "%s of %c arrives", what, who)
		if m.left.faults > 0 && !(p.word == wordDisconnect || p.word == wordAck) {
			add(true, func(m *model) { m.left.faults--; m.take(k); m.deliver(p, true) }, "%s of %c arrives, and what it asks for fails", what, who)
		}
		if e := &m.side[1-p.from]; m.left.migrations > 0 && p.word == wordRequest && !m.s.managed && e.alive() && !e.made && e.named == 0 {
			add(true, func(m *model) {
				m.left.migrations--
				m.deliver(p, false)
				m.side[1-p.from].unsure = true
			}, "%s of %c arrives from elsewhere", what, who)
		}
		if m.left.copies > 0 && !p.byManager() {
			add(true, func(m *model) { m.left.copies--; m.deliver(p, false) }, "%s of %c arrives, and will again", what, who)
		}
	}
	for k := range m.side {
		e, o, name := &m.side[k], &m.side[1-k], 'a'+k
		if !e.got && !m.s.managed && !e.exists && !(m.s.loop && k > 0) {
			add(true, func(m *model) { m.make(k) }, "%c makes an endpoint", name)
		}
		if e.failed {
			add(false, func(m *model) { m.close(k) }, "%c closes its endpoint", name)
		}
		if !e.alive() {
			continue
		}
		if m.left.closes > 0 && !e.made {
			add(true, func(m *model) { m.left.closes--; m.event(k, Lost, nil, false); m.close(k) }, "%c closes its endpoint by force", name)
			if m.left.losses > 0 && e.aux {
				add(true, func(m *model) {
					m.left.closes--
					m.left.losses--
					m.lose(func(p *packet) bool { return int(p.from) == k })
					m.event(k, Lost, nil, false)
					m.close(k)
				}, "%c closes its endpoint by force, and with it its messages", name)
			}
		}
		if e.made && !e.got {
			add(true, func(m *model) { m.side[k].made, m.side[k].got = false, true }, "%c claims the endpoint", name)
		}
		if e.end.Role == Peer && e.end.Stage == Idle && !e.lanes && e.named == 0 {
			add(true, func(m *model) { m.event(k, Need, nil, false) }, "%c needs the id", name)
			if m.left.faults > 0 {
				add(true, func(m *model) { m.left.faults--; m.event(k, Need, nil, true) }, "%c needs the id and cannot ask", name)
			}
		}
		if e.end.Role == Peer && m.left.repeats > 0 && m.facts(k)&(LargerUUID|SameUUID) == 0 {
			add(true, func(m *model) { m.left.repeats--; m.event(k, Repeat, nil, false) }, "%c repeats", name)
		}
		m.losses(k, add)
		if awaits := e.end.Stage == Requested && e.named == 0 || e.end.Stage == Crossed && m.facts(k)&LargerUUID != 0; awaits &&
			!e.lanes && m.s.order != 0 && m.net[0].word == 0 {
			add(false, func(m *model) { m.event(k, Repeat, nil, false) }, "%c has waited long, and repeats", name)
		}
		if _, do := m.table.next(e.end, Tick, m.facts(k)); do.Err() == nil || m.quiet() {
			add(false, func(m *model) { m.event(k, Tick, nil, false) }, "%c's keepalive", name)
		}
		if m.peerMissing(k) && !m.asksLater(k) {
			add(m.s.managed, func(m *model) { m.removed(k) }, "%c's keepalive finds no endpoint", name)
		}
		// Lanes that lead to transport endpoints that do not lead back.
		if e.started && o.exists && e.lanes && (e.to != o.own || o.to != e.own) {
			add(false, func(m *model) { m.fail(k, true) }, "%c's lanes break", name)
		}
	}
	return list
}

// overtakes reports whether a packet of the connection manager is behind another of its side.
func (m *model) overtakes(k int) bool {
	return slices.ContainsFunc(m.net[:], func(p packet) bool {
		return p.word != 0 && p.byManager() && p.from == m.net[k].from && p.word < m.net[k].word
	})
}

// losses adds the steps in which a lane of a side fails.
func (m *model) losses(k int, add func(bool, func(*model), string, ...any)) {
	e, o, name := &m.side[k], &m.side[1-k], 'a'+k
	if e.reset {
		add(false, func(m *model) { m.side[k].reset = false; m.auxLost(k) }, "%c's connection is reset", name)
	}
	if e.aux && o.started && !o.aux {
		add(true, func(m *model) { m.auxLost(k) }, "%c's auxiliary lane ends with that of the other side", name)
	}
	if m.left.losses == 0 {
		return
	}
	if m.s.managed { // both sides use one connection
		if e.end.Role == Client && (m.slices(wordPreRequest) || m.slices(wordRequest) || m.slices(wordReply) || m.slices(wordReconfig)) {
			add(true, func(m *model) {
				m.left.losses--
				m.lose(func(p *packet) bool { return !p.byManager() && p.word != wordAck })
				m.auxLost(0)
				m.auxLost(1)
			}, "the first lanes break")
		}
		return
	}
	if replied := func(p *packet) bool { return int(p.from) == k && (p.word == wordReply || p.word == wordReconfig) }; m.s.lanes == [2]bool{} &&
		slices.ContainsFunc(m.net[:], func(p packet) bool { return replied(&p) }) {
		add(true, func(m *model) {
			m.left.losses--
			m.lose(replied)
			m.fail(k, false)
		}, "%c's lane breaks, and its reply is lost unnoticed", name)
	}
	for _, lost := range []bool{true, false} {
		mine := func(p *packet) bool {
			return int(p.from) == k && (p.word == wordRequest || e.lanes && (p.word == wordReply || p.word == wordReconfig))
		}
		if lost && !slices.ContainsFunc(m.net[:], func(p packet) bool { return mine(&p) }) {
			continue
		}
		if e.end.Unanswered() && (e.aux || !e.lanes) {
			add(true, func(m *model) {
				m.left.losses--
				if lost {
					m.lose(mine)
				}
				m.timedOut(k)
			}, "%c's lane times out, its messages lost: %t", name, lost)
		}
		if e.aux {
			add(true, func(m *model) {
				m.left.losses--
				if lost {
					m.lose(mine)
				}
				m.auxLost(k)
			}, "%c's auxiliary lane breaks, its messages lost: %t", name, lost)
		}
	}
}

// slices reports whether a word is on the way.
func (m *model) slices(w word) bool {
	return slices.ContainsFunc(m.net[:], func(p packet) bool { return p.word == w })
}

// lose removes packets.
func (m *model) lose(which func(*packet) bool) {
	for k := range m.net {
		for m.net[k].word != 0 && which(&m.net[k]) {
			m.take(k)
		}
	}
}

// take removes one packet.
func (m *model) take(k int) {
	copy(m.net[k:], m.net[k+1:])
	m.net[len(m.net)-1] = packet{}
}

// send puts a packet on the way.
func (m *model) send(k int, w word, to uint8) {
	e := &m.side[k]
	m.put(packet{word: w, from: uint8(k), ends: e.own, lanes: e.lanes, to: to})
}

func (m *model) put(p packet) {
	if m.net[len(m.net)-1].word != 0 {
		m.bad("more messages on the way than there is room for")
		return
	}
	m.net[len(m.net)-1] = p
	slices.SortFunc(m.net[:], func(a, b packet) int { return cmp.Compare(a.rank(), b.rank()) })
}

// bad records what is wrong, if nothing was before.
func (m *model) bad(flaw string) {
	if m.flaw == "" {
		m.flaw = flaw
	}
}

// make makes an endpoint of the application.
func (m *model) make(k int) {
	m.side[k] = side{exists: true, got: true, own: ends{m.side[k].own.id + 1, 1}, lanes: m.s.lanes[k], aux: m.s.lanes[k]}
	if m.s.loop {
		m.side[k].named = m.side[k].own.id
		m.event(k, Loopback, nil, false)
	} else if m.s.lanes[k] {
		m.event(k, Need, nil, false)
	}
}

// close releases an endpoint.
func (m *model) close(k int) {
	e := &m.side[k]
	if m.s.managed && !e.failed {
		m.send(k, wordDisconnect, 0)
	}
	*e = side{own: e.own, got: e.got}
}

// fail ends an endpoint because its peer is lost. With heard the connection on which the other side
// has requested the endpoint is closed.
func (m *model) fail(k int, heard bool) {
	e, o := &m.side[k], &m.side[1-k]
	if !e.alive() {
		return
	}
	m.event(k, Lost, nil, false)
	e.failed = true
	if m.s.managed {
		m.send(k, wordDisconnect, 0)
	}
	if e.made {
		if heard && o.alive() && o.aux {
			o.reset = true
		}
		m.close(k) // no application holds it
	}
}

// removed ends an endpoint because that of the other side does not exist. The lanes are closed.
func (m *model) removed(k int) {
	m.fail(k, true)
	if e := &m.side[k]; e.failed {
		e.lanes, e.aux, e.to = false, false, ends{}
	}
}

// peerMissing reports whether the other side's endpoint that the endpoint of side k knows exists no more.
func (m *model) peerMissing(k int) bool {
	e, o := &m.side[k], &m.side[1-k]
	return e.named != 0 && !(o.exists && o.own.id == e.named) && !m.s.loop
}

// asksLater reports whether the keepalive of side k asks the other side for its endpoint only when the table
// says so.
func (m *model) asksLater(k int) bool {
	e := &m.side[k]
	return e.end.Role == Peer && e.lanes && e.aux && mayBeUnconnected(e.end) && !m.s.mute
}

// quiet reports whether nothing is on the way for which a side may wait: rounds of the keepalive
// take longer than messages.
func (m *model) quiet() bool {
	return !slices.ContainsFunc(m.net[:], func(p packet) bool { return p.word != 0 && p.word != wordRequest })
}

// timedOut reports the timeout of the lane that carried the request.
func (m *model) timedOut(k int) {
	if e := &m.side[k]; e.aux && e.end.Stage == Both {
		m.auxLost(k)
	} else if m.event(k, TimedOut, nil, false)&RetryLanes == 0 {
		m.fail(k, true)
	}
}

// auxLost reports the loss of the auxiliary lane.
func (m *model) auxLost(k int) {
	if m.side[k].alive() && m.event(k, AuxLost, nil, false)&IgnoreLoss == 0 {
		m.fail(k, true)
	}
}

// facts are the facts that package ucp states.
func (m *model) facts(k int) (f Facts) {
	e := &m.side[k]
	if e.lanes {
		f |= HasLanes
	}
	if m.s.order == 0 {
		f |= SameUUID
	}
	if (m.s.order < 0) == (k == 0) && m.s.order != 0 {
		f |= LargerUUID
	}
	if !e.aux {
		f |= AuxClosed
	}
	if e.aux && e.named != 0 && !m.s.mute {
		f |= CanAsk
	}
	if e.failed {
		f |= Dead
	}
	return f
}

// deliver gives a packet to the other side. With faulty the first duty that can fail does.
func (m *model) deliver(p packet, faulty bool) {
	k := 1 - int(p.from)
	e := &m.side[k]
	if p.to != 0 && p.to != e.own.id || !e.exists && (p.word != wordRequest || p.to != 0) {
		return // for no endpoint
	}
	var ev Event
	switch p.word {
	case wordDisconnect:
		m.fail(k, false)
		return
	case wordRemoved:
		m.removed(k)
		return
	case wordData:
		ev = Data
		_, e.end.AllDevices = m.s.data()
		e.named = p.ends.id
	case wordNotification:
		ev = Notified
	case wordPreRequest:
		ev = PreRequest
	case wordReply, wordReconfig:
		ev = Reply
		if p.word == wordReconfig {
			ev = ReplyReconfig
		}
	case wordAck:
		ev = Ack
		if e.to != p.ends && e.lanes {
			return // lost with its lane, which leads elsewhere
		}
	case wordRequest:
		switch {
		case m.s.managed:
			ev = Request
		case !e.exists:
			ev = Opened
			*e = side{exists: true, made: true, got: e.got, own: ends{e.own.id + 1, 1}, lanes: m.s.lanes[k] && p.lanes}
			e.aux, e.toward = e.lanes, p.ends
		case e.unsure:
			ev = Request
		case e.named == p.ends.id: // package identity finds that it is repeated
			if e.lanes && !e.failed || m.s.order == 0 {
				return
			}
			ev = Request
		case e.named != 0:
			m.close(int(p.from)) // which another endpoint of this side answers
			return
		default:
			ev = Request
		}
	}
	if m.s.managed && e.failed && ev != Reply && ev != ReplyReconfig && ev != Ack {
		return
	}
	if ev == Reply || ev == ReplyReconfig || ev == Request || ev == Opened {
		_, do := m.table.next(e.end, ev, m.facts(k))
		switch {
		case do&Drop == 0:
			if e.named == 0 || e.unsure {
				e.named, e.unsure = p.ends.id, false
			}
			e.replied = e.replied || ev == Reply || ev == ReplyReconfig
		case e.alive() && ((ev == Reply || ev == ReplyReconfig) && m.sound() && !e.replied && (m.s.order != 0 || !e.lanes) || e.unsure):
			m.bad("the reply to a request is dropped")
		}
	}
	m.event(k, ev, &p, faulty)
}

// event reports an event and carries out the duties.
func (m *model) event(k int, ev Event, p *packet, faulty bool) Duty {
	e := &m.side[k]
	was := e.end
	next, do := m.table.next(e.end, ev, m.facts(k))
	e.end = next
	m.inform(k, ev, was, do)
	broken := false
	fallible := func() bool {
		if faulty && !broken {
			broken = true
			m.dutyFailed(k, ev, p)
		}
		return !broken
	}
	if do&ReplaceLanes != 0 && fallible() {
		if !m.s.managed && !p.lanes {
			faulty = true
			fallible()
		} else {
			e.own.choice++
			e.to, e.aux, e.toward, e.started = ends{}, true, p.ends, false
		}
	}
	if do&RetryLanes != 0 {
		e.own.choice++
		e.to, e.aux = ends{}, true
	}
	if do&ConnectLanes != 0 && !broken && fallible() {
		switch {
		case p == nil && ev == Loopback:
			e.to = e.own
		case !p.lanes:
			faulty = true
			fallible()
		case e.to != ends{}:
			m.bad("lanes are connected that are connected already")
		case !e.lanes:
			m.bad("lanes are connected that are not there")
		case (ev == Request || ev == Opened) && e.toward != p.ends && m.s.order != 0:
			m.bad("lanes are connected that were chosen for others")
		default:
			e.to = p.ends
		}
	}
	if broken {
		return do
	}
	if do&AskPeer != 0 && m.peerMissing(k) {
		m.removed(k)
	}
	if do&Notify != 0 {
		if e.to == (ends{}) {
			m.bad("lanes are notified of that are not connected")
		}
		m.send(k, wordNotification, 1)
	}
	if do&SendPreRequest != 0 {
		m.send(k, wordPreRequest, e.named)
	}
	if do&SendRequest != 0 && fallible() {
		to := uint8(0)
		if m.s.managed {
			to = e.named
		}
		m.send(k, wordRequest, to)
		if do&SendAgain != 0 {
			m.send(k, wordRequest, to)
		}
	}
	if do&SendReply != 0 {
		w := wordReply
		if m.left.reconfigs > 0 {
			m.left.reconfigs--
			w = wordReconfig
		}
		m.send(k, w, p.ends.id)
	}
	if do&SendAck != 0 {
		m.send(k, wordAck, e.named)
	}
	if do&SendRemoved != 0 {
		to := e.named
		if p != nil {
			to = p.ends.id
		}
		m.send(k, wordRemoved, to)
	}
	if do&Start != 0 {
		e.started, e.aux = true, false
	}
	if do&IgnoreLoss != 0 {
		e.aux = false
	}
	if do.Err() != nil {
		m.fail(k, false)
	}
	return do
}

// dutyFailed does what package ucp does when a duty could not be carried out.
func (m *model) dutyFailed(k int, ev Event, p *packet) {
	m.event(k, DutyFailed, nil, false)
	e := &m.side[k]
	switch {
	case ev == Need && !e.lanes: // the operation fails, and the endpoint stays
	case (ev == Request || ev == Opened) && !m.s.managed:
		if e.lanes {
			m.send(k, wordRemoved, p.ends.id)
		}
		m.fail(k, true)
	default:
		m.fail(k, false)
	}
}

// inform checks what an endpoint does about an event.
func (m *model) inform(k int, ev Event, was End, do Duty) {
	e := &m.side[k]
	message := messages&(1<<ev) != 0
	switch {
	case e.end.Rounds > maxRounds:
		m.bad("rounds are counted without end")
	case e.end.Repeats > maxRepeats:
		m.bad("a request is repeated too often")
	case ev == Repeat && was.Stage == Idle && e.end.Repeats != 1:
		m.bad("a request is not to be sent twice that was to be")
	case ev == Repeat && do&SendRequest != 0 && e.end.Repeats != was.Repeats+1:
		m.bad("a repeated request is not counted")
	case ev == Repeat && was.Unanswered() && was.Repeats < maxRepeats && do&SendRequest == 0:
		m.bad("a request is not repeated")
	case ev == Repeat && do&SendRequest != 0 && !was.Unanswered():
		m.bad("a request is repeated that waits for nothing")
	case ev == Need && (do&SendAgain != 0) != (was.Repeats > 0):
		m.bad("a request is to be sent twice and is sent once, or the reverse")
	case ev == Need && do&SendRequest == 0:
		m.bad("nothing is requested")
	case message && was == e.end && do == 0 && was.Stage != Crossed:
		m.bad("a message changes nothing and is not counted as dropped")
	case message && was.Stage == Failed && do != Drop && do != SendRemoved:
		m.bad("a handshake that has failed goes on")
	case message && do&Drop != 0 && was != e.end && do.Err() == nil:
		m.bad("a message that is dropped changes something")
	case ev == Request && was.Unanswered() && m.facts(k)&LargerUUID != 0 && !e.failed && do != 0:
		m.bad("a request is handled although that of this side counts")
	case e.end.Stage == Failed && was.Stage != Failed && do.Err() == nil && ev != DutyFailed && ev != Lost:
		m.bad("an endpoint fails without a reason")
	case do&FailDevices != 0 && do&Drop == 0:
		m.bad("a message that cannot be followed is not counted as dropped")
	case ev == Lost && do&SendRemoved != 0 && was.Stage == Crossed && m.facts(k)&LargerUUID == 0:
		m.bad("an endpoint is ended that has its reply")
	case do&SendReply != 0 && e.end.Rounds != 0:
		m.bad("the rounds of another reply count")
	case ev == TimedOut && (do&RetryLanes != 0) != (e.lanes && (was.Stage == Requested || was.Stage == Crossed)):
		m.bad("a request is not repeated over other devices, or is although data may have been sent")
	case ev == TimedOut && do&RetryLanes != 0 && do&SendRequest == 0:
		m.bad("lanes are chosen and not requested")
	case do&Start != 0 && !e.lanes:
		m.bad("lanes are started that are not there")
	case ev == TimedOut && do&RetryLanes != 0 && e.end.Repeats != 0:
		m.bad("repeats are counted of another request")
	case ev == Tick && was.Rounds < maxRounds && e.lanes && mayBeUnconnected(was) && do&SkipCheck == 0:
		m.bad("lanes are checked that the other side may not have connected yet")
	case ev == Tick && e.aux && e.lanes && !m.s.mute && mayBeUnconnected(was) && do&SkipCheck == 0:
		m.bad("lanes are checked although the other side can be asked")
	case ev == Tick && do&SkipCheck != 0 && !mayBeUnconnected(was):
		m.bad("lanes are not checked that are connected")
	case do&AskPeer != 0 && (!e.aux || e.named == 0):
		m.bad("the other side is asked, which cannot be")
	case ev == AuxLost && do&IgnoreLoss != 0 && was.Stage != Replied && was.Stage != Both:
		m.bad("a loss is ignored with which the agreement ends")
	case ev == AuxLost && do&IgnoreLoss != 0 && was.Role == Peer && (do&CheckLanes == 0 || e.end.Rounds != 0):
		m.bad("a lost auxiliary lane does not start the search for the other side")
	case do&IgnoreLoss != 0 && was.Role != Peer && do&CheckLanes != 0:
		m.bad("lanes are checked whose loss the connection manager reports")
	case ev == Tick && do.Err() != nil && e.aux:
		m.bad("an endpoint gives up although its auxiliary lane is there")
	case do&SendAck != 0 && e.lanes && do&ConnectLanes == 0 && e.to == ends{}:
		m.bad("lanes are acknowledged that are not connected")
	case ev == ReplyReconfig && do&Drop == 0 && do&SendAck == 0:
		m.bad("a reply that wants an acknowledgement gets none")
	}
}

// inconsistent reports what is wrong in a world.
func (m *model) inconsistent() string {
	for k := range m.side {
		e := &m.side[k]
		switch {
		case e.failed && m.sound():
			return "an endpoint fails that nothing has happened to"
		case !e.alive():
		case e.started && e.to == ends{}:
			return "operations start over lanes that are not connected"
		case e.started && e.end.Stage != Open && e.end.Stage != Failed:
			return "operations start before the agreement"
		case e.end.Stage == Open && e.lanes && !e.started:
			return "an endpoint is open, and its operations wait"
		}
	}
	return ""
}

// sound reports whether nothing has happened for which an endpoint may fail.
func (m *model) sound() bool {
	b := &m.s.budget
	return m.left.losses == b.losses && m.left.faults == b.faults && m.left.closes == b.closes && m.left.migrations == b.migrations && !m.s.mayFail
}

// settled reports whether the sides have agreed.
func (m *model) settled(k int) bool {
	e, o := &m.side[k], &m.side[1-k]
	switch {
	case !e.alive():
		return true
	case m.s.loop:
		return e.end.Stage == Open && (!e.lanes || e.started && e.to == e.own)
	case e.end.Stage == Idle:
		return e.end.Role == Peer
	case !e.lanes:
		return e.named != 0 && o.exists && o.own.id == e.named && (e.end.Stage == Open || e.end.Stage == Crossed)
	}
	return e.end.Stage == Open && e.started && o.alive() && o.end.Stage == Open && e.to == o.own && o.to == e.own
}

// unfinished reports what is wrong in a world in which nothing more happens by itself.
func (m *model) unfinished() string {
	for k := range m.side {
		if !m.settled(k) {
			return fmt.Sprintf("endpoint %c waits forever in stage %v", 'a'+k, m.side[k].end.Stage)
		}
	}
	return ""
}

// mayBeUnconnected reports whether the other side may not have connected its lanes yet.
func mayBeUnconnected(e End) bool {
	switch e.Role {
	case Peer:
		return e.Stage == Replied || e.Stage == Both
	case Server:
		return e.Stage == Starting || e.Stage == Replied
	}
	return false
}
