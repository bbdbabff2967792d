package engine

// keepStep is step for a background waiter.
func (m *machine) keepStep(s *state, a int) bool {
	x := &s.at[a]
	switch x.pc {
	case pcKeepPark:
		if x.token == 0 {
			return false
		}
		x.token = 0
		if x.over != 0 && x.leads == 0 {
			m.finish(s, a)
			return true
		}
		x.then, x.pc = pcKeepLook, pcTake
	case pcKeepLead:
		m.lead(s, a)
		x.pc = pcKeepNext
	case pcKeepNext:
		m.keepNext(s, a)
	case pcKeepSlumber:
		if !s.ready() && s.closed == 0 {
			return false
		}
		m.take(slumber)
		x.then, x.pc = pcKeepBack, pcTake
	default:
		panic("an actor is nowhere")
	}
	return true
}

// keepOn is where a background waiter goes on in a turn.
func (m *machine) keepOn(s *state, a int) {
	x := &s.at[a]
	switch {
	case x.over != 0:
		m.leave(s, a)
		m.endTurn(s, a, pcFinish)
	case x.leads != 0:
		x.pc = pcKeepLead
	default:
		m.endTurn(s, a, pcKeepPark)
	}
}

// keepNext is what follows after a round.
func (m *machine) keepNext(s *state, a int) {
	x := &s.at[a]
	if x.over != 0 || x.n != 0 {
		x.n = 0
		m.endTurn(s, a, pcTake)
		return
	}
	busy := m.arm(s, a)
	m.tell(s, a)
	if busy || x.over != 0 {
		m.endTurn(s, a, pcTake)
		return
	}
	m.take(dozes)
	s.asleep, s.dozing = 1, 1
	x.pc, x.after = pcFree, pcKeepSlumber
}

// keepBack is behind sleep, in a turn.
func (m *machine) keepBack(s *state, a int) {
	m.take(back)
	m.mine(s, a)
	if m.mutant != dozesForEver {
		s.dozing = 0
	}
	if s.at[a].leads != 0 || m.mutant == backWakesAll {
		s.asleep = 0
	}
	m.keepOn(s, a)
}

// keepLook is what a background waiter does that was signaled.
func (m *machine) keepLook(s *state, a int) {
	m.take(looks)
	m.mine(s, a)
	if m.mutant != dueForEver {
		s.due = 0
	}
	x := &s.at[a]
	switch {
	case s.leader != 0 && m.mutant != looksNotForLeader || x.over != 0:
	case s.led != 0:
		m.handBack(s)
	default:
		s.leader, x.leads = uint8(a+1), 1
	}
	m.keepOn(s, a)
}

// displace takes the lead from the background waiter.
func (m *machine) displace(s *state, b int) {
	m.take(displaces)
	s.at[s.background-1].leads = 0
	s.asleep = 0
	s.leader, s.at[b].leads = uint8(b+1), 1
}

// handBack lets it lead again, now or later.
func (m *machine) handBack(s *state) {
	if s.background == 0 || m.mutant == noHandBack {
		return
	}
	b := &s.at[s.background-1]
	switch {
	case b.over != 0:
	case s.dozing != 0:
		m.take(reinstates)
		s.leader, b.leads = s.background, 1
		if m.mutant != reinstatedAwake {
			s.asleep = 1
		}
	case s.due == 0:
		m.take(later)
		s.due, s.led = 1, 0
		b.token = 1 // some time
	}
}
