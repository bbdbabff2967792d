package engine

// waitStep is step for what has to do with waiting.
func (m *machine) waitStep(s *state, a int) bool {
	x := &s.at[a]
	switch x.pc {
	case pcPark:
		return m.park(s, a)
	case pcGiveUp:
		m.giveUp(s, a)
	case pcLead:
		m.lead(s, a)
	case pcLeadNext:
		m.leadNext(s, a)
	case pcSlumber:
		if !s.ready() && x.ended == 0 && s.closed == 0 {
			return false
		}
		m.take(slumber)
		x.err = x.ended | s.closed
		x.then, x.pc = pcAwake, pcTake
		if m.mutant == wakesOutsideOfTurn {
			m.mine(s, a)
			s.asleep = 0
		}
	case pcKeepPark, pcKeepLead, pcKeepNext, pcKeepSlumber:
		return m.keepStep(s, a)
	default:
		return m.outsideStep(s, a)
	}
	return true
}

// inTurn is what follows in a turn that has begun. It belongs to the step before if
// that makes no difference to others.
func (m *machine) inTurn(s *state, a int) {
	x := &s.at[a]
	switch x.pc {
	case pcOwn:
		m.own(s, a)
	case pcStay:
		m.stay(s, a)
	case pcAwake:
		m.awake(s, a)
	case pcRound:
		m.progress(s, a)
	case pcKeepOn:
		m.keepOn(s, a)
	case pcKeepLook:
		m.keepLook(s, a)
	case pcKeepBack:
		m.keepBack(s, a)
	case pcUnwind:
		m.take(unwind)
		x.op = none
		x.result = failed
		m.leave(s, a)
		m.endTurn(s, a, pcFinish)
	}
}

// own is what a call does in its turn.
func (m *machine) own(s *state, a int) {
	x := &s.at[a]
	m.mine(s, a)
	m.endTurn(s, a, pcFinish)
	switch does := m.now(s, a).does; does {
	case keep:
		m.carried(s, a, x.call)
		if x.result = failed; s.closed == 0 {
			x.result = 0
			m.join(s, a, a)
			m.keepOn(s, a)
		}
	case await, lead, event:
		if !m.carryOut(s, a, a) {
			m.join(s, a, a)
			m.stay(s, a)
		}
	case poll:
		m.ownArm(s, a)
	case shut:
		m.shut(s, a)
	case ask:
		m.carried(s, a, x.call)
	default:
		m.submit(s, a, a, x.call)
	}
}

// carryOut starts what b waits for. It reports whether that is over.
func (m *machine) carryOut(s *state, a, b int) bool {
	m.take(carryOut)
	m.mine(s, a)
	x := &s.at[b]
	m.carried(s, b, x.call)
	if s.closed != 0 {
		x.result = failed
		return true
	}
	if x.kind == Event && (m.told(s, a) || m.arm(s, a)) {
		x.result = succeeded
		return true
	}
	if x.kind == Operation {
		x.op = inFlight
		s.hardware = 0 // it has not been armed
	}
	return false
}

func (m *machine) join(s *state, a, b int) {
	m.take(join)
	m.mine(s, a)
	x := &s.at[b]
	background := x.kind == Background
	if background {
		s.background = uint8(b + 1)
	} else {
		s.led = 1
	}
	switch {
	case s.leader == 0 && m.mutant != joinsBehindNobody:
		s.leader, x.leads = uint8(b+1), 1
		return
	case background:
		return
	case s.leader == s.background && s.leader != 0:
		m.displace(s, b)
		return
	}
	if m.mutant == leadsBesides {
		s.leader, x.leads = uint8(b+1), 1
		return
	}
	s.waiting[x.kind].push(uint8(b + 1))
	x.joined = 1
}

// end tells b that what it waits for has happened.
func (m *machine) end(s *state, a, b int) {
	m.take(end)
	m.mine(s, a)
	x := &s.at[b]
	m.must(x.waits != 0, "who does not wait is told of an end")
	m.must(x.over == 0, "a wait ends twice")
	if x.leads == 0 && x.joined != 0 {
		s.waiting[x.kind].remove(uint8(b + 1))
		x.joined = 0
	}
	x.missed = 0
	if m.mutant != signalBeforeOver {
		x.over = 1
	}
	if m.mutant != endWithoutSignal {
		x.token = 1
	}
	if m.mutant == looksAtEnded || m.mutant == signalBeforeOver {
		s.touch = uint8(b + 1)
	}
	sleeps := x.leads != 0 && s.asleep != 0
	if s.background == uint8(b+1) {
		if m.mutant != dozesOn {
			sleeps = s.dozing != 0
		}
		if x.leads == 0 {
			s.background = 0
		}
	}
	if sleeps && m.mutant != endWithoutRouse {
		m.rouse(s, a)
	}
}

// leave takes a out of those who wait.
func (m *machine) leave(s *state, a int) {
	if m.mutant == handsOverOutsideOfTurn && s.owner == uint8(a+1) {
		return
	}
	m.take(leave)
	m.mine(s, a)
	x := &s.at[a]
	if x.joined != 0 && m.mutant != staysInList {
		s.waiting[x.kind].remove(uint8(a + 1))
		x.joined = 0
	}
	if s.background == uint8(a+1) {
		s.background = 0
	}
	if m.mutant != staysLeader && x.leads != 0 {
		s.leader, x.leads = 0, 0
		if m.mutant != staysAsleep {
			s.asleep = 0
		}
		m.handOver(s)
	}
	if m.mutant != tokenLeft {
		x.token = 0
	}
}

func (m *machine) handOver(s *state) {
	if m.mutant == noHandOver {
		return
	}
	for k := range s.waiting {
		if s.waiting[k].n > 0 {
			m.take(handOver)
			b := s.waiting[k].pop()
			next := &s.at[b-1]
			next.joined, next.leads = 0, 1
			s.leader = b
			if m.mutant != handOverWithoutSignal {
				next.token = 1
			}
			return
		}
	}
	m.handBack(s)
}

// happened ends what waits for any event.
func (m *machine) happened(s *state, a int) {
	m.take(happened)
	for s.waiting[Event].n > 0 {
		b := int(s.waiting[Event].item[0] - 1)
		s.at[b].result = succeeded
		m.end(s, a, b)
	}
	if l := s.leader; l != 0 && m.mutant != happensToOthers {
		if x := &s.at[l-1]; x.kind == Event && x.over == 0 {
			x.result = succeeded
			m.end(s, a, int(l-1))
		}
	}
}

// endAll ends all waits that do not end by themselves.
func (m *machine) endAll(s *state, a int) {
	m.take(endAll)
	for b := range s.at {
		if x := &s.at[b]; (x.joined|x.leads != 0 || s.background == uint8(b+1)) && x.over == 0 {
			x.result = failed
			x.op = none
			m.end(s, a, b)
		}
	}
}

// stay goes on waiting in a turn.
func (m *machine) stay(s *state, a int) {
	m.mine(s, a)
	x := &s.at[a]
	switch {
	case x.over != 0:
		m.leave(s, a)
		m.endTurn(s, a, pcFinish)
	case x.leads != 0 && x.kind == Event:
		m.fallAsleep(s, a)
	case x.leads != 0:
		x.pc = pcLead
	default:
		m.endTurn(s, a, pcPark)
	}
}

// park sleeps until the call is over, or has to lead, or its context ends.
func (m *machine) park(s *state, a int) bool {
	x := &s.at[a]
	if x.token == 0 && x.ended == 0 {
		return false
	}
	if x.token != 0 && (x.ended == 0 || m.choose(2) == 0) {
		m.take(wake)
		x.token = 0
		if x.over != 0 && (x.leads == 0 || m.mutant == goneThoughLeads) {
			m.finish(s, a)
			return true
		}
		m.must(x.over+x.leads != 0, "woken for nothing")
		x.then, x.pc = pcStay, pcTake
		return true
	}
	m.take(calledOff)
	x.then, x.pc = pcGiveUp, pcTake
	if m.mutant == givesUpOutsideOfTurn {
		x.result = canceled
		m.finish(s, a)
	}
	return true
}

// giveUp ends the waiting before its time.
func (m *machine) giveUp(s *state, a int) {
	m.take(giveUp)
	m.mine(s, a)
	x := &s.at[a]
	if x.over == 0 {
		if x.op != none && m.choose(2) == 1 { // a receive is canceled, and ends
			x.op = none
			x.result = canceled
			m.end(s, a, a)
		} else {
			x.op = none // goes on, unheard
			x.result = canceled
		}
	}
	if m.mutant == cancelKeepsLeading {
		x.leads, x.token = 0, 0
	}
	m.leave(s, a)
	m.endTurn(s, a, pcFinish)
}

// lead is a round of progress of the leader.
func (m *machine) lead(s *state, a int) {
	x := &s.at[a]
	x.n = 0
	if x.over == 0 && m.round(s, a) {
		x.n = 1
	}
	m.tell(s, a)
	x.pc = pcLeadNext
}

// leadNext is what follows after one: another, or sleep.
func (m *machine) leadNext(s *state, a int) {
	x := &s.at[a]
	if x.over != 0 {
		m.leave(s, a)
		m.endTurn(s, a, pcFinish)
		return
	}
	switch {
	case x.ended != 0 && m.choose(2) == 1:
		x.pc = pcGiveUp
	case x.n == 0: // the rounds without events before it sleeps are one
		m.fallAsleep(s, a)
	default:
		x.n = 0
		m.endTurn(s, a, pcTake)
	}
}

// fallAsleep arms the events as the owner and sleeps not as that.
func (m *machine) fallAsleep(s *state, a int) {
	x := &s.at[a]
	doze := x.kind == Event
	busy := m.mutant != sleepsUnarmed && m.arm(s, a)
	if m.mutant != sleepsOnNews {
		m.tell(s, a)
	}
	if busy || x.over != 0 && m.mutant != sleepsThoughOver {
		if doze {
			x.result = succeeded
			m.leave(s, a)
			m.endTurn(s, a, pcFinish)
			return
		}
		m.endTurn(s, a, pcTake)
		return
	}
	m.take(sleep)
	m.mine(s, a)
	if m.mutant != asleepUnsaid {
		s.asleep = 1
	}
	x.pc, x.after = pcFree, pcSlumber
}

// awake is behind sleep, in a turn.
func (m *machine) awake(s *state, a int) {
	m.take(sleep)
	m.mine(s, a)
	x := &s.at[a]
	s.asleep = 0
	switch {
	case x.kind == Event:
		if x.over == 0 {
			x.result = succeeded
			if x.err != 0 {
				x.result = canceled
			}
		}
		m.leave(s, a)
		m.endTurn(s, a, pcFinish)
	case x.err != 0 && x.over == 0:
		x.pc = pcGiveUp
	case x.err != 0:
		m.endTurn(s, a, pcTake)
	default:
		x.pc = pcLead
	}
	x.err = 0
}

// finish is the end of a call.
func (m *machine) finish(s *state, a int) {
	x := &s.at[a]
	if m.mutant == handsOverOutsideOfTurn && x.leads != 0 {
		m.leave(s, a)
	}
	m.must(s.owner != uint8(a+1), "a call returns and keeps the turn")
	if x.waits != 0 {
		if x.kind == Event && x.result == succeeded {
			s.unread = 0
		}
		m.must(s.touch != uint8(a+1), "a waiter is looked at that is gone")
		m.must(x.leads+x.joined == 0 || s.abandoned != 0, "a call returns and its waiter is still known")
		m.must(x.token == 0 || s.abandoned != 0, "a call returns and leaves a token")
		m.must(x.result != 0 || s.abandoned != 0, "a wait returns without having ended")
	}
	x.waits, x.over, x.result, x.missed, x.kind, x.ended = 0, 0, 0, 0, 0, 0
	if m.now(s, a).does != sees {
		x.looked = 0 // and will look again
	}
	x.granted, x.n, x.err = 0, 0, 0
	x.then, x.after = 0, 0
	x.call++
	x.pc = pcCall
	if int(x.call) == len(m.scripts[a]) {
		x.pc = pcDone
	}
}
