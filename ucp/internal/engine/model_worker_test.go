package engine

// outsideStep is step for the calls of an application that has a poller of its own.
func (m *machine) outsideStep(s *state, a int) bool {
	x := &s.at[a]
	switch x.pc {
	case pcWatch: // asleep on the descriptor
		if !s.ready() && s.bell == 0 {
			return false
		}
		x.missed, x.looked, s.unread = 0, 0, 0
		x.n = 1
		x.pc = pcProgress
	case pcProgress:
		x.then = pcRound
		if !m.try(s, a) { // somebody else does it
			x.pc, x.then = m.progressed(s, a), 0
			m.returned(s, a)
		}
	case pcSignal:
		if s.closed == 0 {
			s.eventFD = 1
		}
		m.finish(s, a)
	default:
		panic("an actor is nowhere")
	}
	return true
}

// progressed is where the application goes on behind Progress.
func (m *machine) progressed(s *state, a int) pc {
	if m.now(s, a).does == poll && s.at[a].n == 0 {
		return pcTake // Arm
	}
	return pcFinish
}

// progress is Progress, in its turn.
func (m *machine) progress(s *state, a int) {
	m.endTurn(s, a, m.progressed(s, a))
	if m.mutant == progressAnswers {
		m.answer(s)
	}
	if s.closed == 0 {
		m.round(s, a)
	}
}

// ownArm is Arm.
func (m *machine) ownArm(s *state, a int) {
	x := &s.at[a]
	if s.closed != 0 {
		return
	}
	m.answer(s)
	if m.told(s, a) || m.arm(s, a) {
		x.after, x.looked = pcProgress, 0
		return
	}
	m.take(armed)
	if m.mutant != armedUnsaid {
		s.armed = 1
	}
	x.missed = 0
	m.endTurn(s, a, pcWatch)
}

// ready reports whether the event set is readable.
func (s *state) ready() bool { return s.eventFD+s.readable != 0 }

// busy reports whether a round would find something.
func (s *state) busy() bool {
	for a := range s.at {
		if s.at[a].op == arrived {
			return true
		}
	}
	return s.work+s.incoming != 0
}

// arm reports whether there is something to do; if not events will be told.
func (m *machine) arm(s *state, a int) (busy bool) {
	m.take(arm)
	m.mine(s, a)
	if m.mutant == signalEaten && s.signaled != 0 {
		s.signaled = 0
		m.answerRouse(s)
		return true
	}
	if s.busy() {
		return true
	}
	if s.readable != 0 { // a transport may read what has told of events that were handled
		s.readable = 0
		return true
	}
	s.hardware = 1
	return false
}

// heard reports whether there was a Signal of which the application does not know.
func (m *machine) heard(s *state, a int) bool {
	if m.mutant == signalEaten || s.signaled == 0 {
		return false
	}
	m.take(heard)
	m.mine(s, a)
	s.signaled, s.unread = 0, 0
	m.answerRouse(s)
	m.some(s)
	return true
}

// told reports whether there was that, or something that has happened since it was asked
// last.
func (m *machine) told(s *state, a int) bool {
	heard := m.heard(s, a)
	m.tell(s, a)
	if s.untold == 0 || m.mutant == notSticky {
		return heard
	}
	m.take(takeNews)
	s.untold = 0
	return true
}

// round is one of progress.
func (m *machine) round(s *state, a int) (some bool) {
	m.take(round)
	m.mine(s, a)
	m.must(s.closed == 0, "a closed worker is progressed")
	first := s.ready() && m.choose(2) == 0
	if first { // the events are polled before what they tell of
		m.poll(s)
		some = true
	}
	if s.busy() {
		some = true
	}
	s.work = 0
	if s.incoming > 0 {
		s.incoming--
	}
	for b := range s.at {
		if x := &s.at[b]; x.op == arrived {
			x.op = none
			x.result = succeeded
			m.end(s, a, b)
			break
		}
	}
	if !first && s.ready() {
		m.poll(s)
		some = true
	}
	if some {
		m.some(s)
	}
	return some
}

// some is something that happens in a turn.
func (m *machine) some(s *state) {
	s.news = 1
	for b := range s.at {
		x := &s.at[b]
		if x.joined+x.leads != 0 && x.kind == Event && x.over == 0 || s.armed != 0 && m.watches(s, b) {
			x.missed = 1
		}
	}
}

// tell tells those who wait for anything to happen, inside and outside.
func (m *machine) tell(s *state, a int) {
	if s.news == 0 {
		return
	}
	m.take(announce)
	m.mine(s, a)
	s.news, s.untold = 0, 1
	if m.mutant != nobodyHears {
		m.happened(s, a)
	}
	if s.armed != 0 && m.mutant != noRing {
		m.ring(s, a)
	}
}

// watches reports whether b sleeps on the descriptor, or is about to.
func (m *machine) watches(s *state, b int) bool {
	x := &s.at[b]
	return x.pc == pcWatch || x.after == pcWatch && m.scripts[b][x.call].does == poll
}

// poll handles the events of the set.
func (m *machine) poll(s *state) {
	m.answerRouse(s)
	s.readable = 0
}

func (m *machine) answerRouse(s *state) {
	m.take(rouseDone)
	s.eventFD = 0
	if m.mutant != rousedForEver {
		s.roused = 0
	}
}

func (m *machine) rouse(s *state, a int) {
	m.take(rouse)
	m.mine(s, a)
	if s.roused != 0 || s.closed != 0 {
		return
	}
	s.roused = 1
	if m.mutant != rousesWithoutWriting {
		s.eventFD = 1
	}
}

func (m *machine) ring(s *state, a int) {
	m.take(ring)
	m.mine(s, a)
	s.armed = 0
	if m.mutant != ringsWithoutBell {
		s.bell = 1
	}
}

// answer is the application that has come back.
func (m *machine) answer(s *state) {
	m.take(answer)
	s.bell = 0
}

// shut is Close.
func (m *machine) shut(s *state, a int) {
	m.take(closes)
	m.mine(s, a)
	if s.closed != 0 {
		return
	}
	s.closed = 1
	s.work, s.incoming = 0, 0
	for b := range s.at {
		if x := &s.at[b]; x.op != none {
			x.op = none
			x.result = failed
			m.end(s, a, b)
		}
	}
	m.close(s, a)
	s.eventFD, s.readable, s.hardware = 0, 0, 0 // the leader's descriptor is closed; the bell is not
}

// close ends all waits.
func (m *machine) close(s *state, a int) {
	if m.mutant != closeEndsNoWaits {
		m.endAll(s, a)
	}
	if s.armed != 0 && m.mutant != closeRingsNot {
		m.ring(s, a)
	}
}

// What comes from outside.

// arrive lets an event come that b waits for.
func (s *state) arrive(b int) bool {
	if s.at[b].op != inFlight {
		return false
	}
	s.at[b].op = arrived
	s.tell()
	return true
}

// come lets one come for anybody.
func (s *state) come() bool {
	if s.events == 0 || s.closed != 0 {
		return false
	}
	s.events--
	s.incoming++
	s.tell()
	return true
}

// tell tells of an event, if anybody wants to know.
func (s *state) tell() {
	if s.hardware != 0 {
		s.hardware, s.readable = 0, 1
	}
}

// cancel ends the context of a call.
func (m *machine) cancel(s *state, a int) bool {
	x := &s.at[a]
	if x.waits == 0 || x.ended != 0 || x.pc == pcDone || !m.now(s, a).cancel {
		return false
	}
	x.ended = 1
	return true
}
