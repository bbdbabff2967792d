package engine

// pc is where an actor is: what it does next.
type pc uint8

const (
	pcCall pc = iota // begins the next one
	pcDone

	// Taking a turn, however long that takes.
	pcTake
	pcAcquire
	pcWant
	pcSpin
	pcWish
	pcWishRetake
	pcAwait
	pcServed

	// Leaving a call to others.
	pcPush
	pcPushRetake

	// A turn.
	pcBegin
	pcDo
	pcEnd
	pcFree
	pcLook
	pcRetake
	pcPassRun
	pcPassDo

	// What it was taken for, and what comes behind it.
	pcOwn
	pcStay
	pcAwake
	pcUnwind
	pcRound
	pcFinish

	// Waiting.
	pcPark
	pcGiveUp
	pcLead
	pcLeadNext
	pcSlumber

	// The application's poller, and Signal.
	pcProgress
	pcWatch
	pcSignal

	// The background waiter.
	pcKeepOn
	pcKeepPark
	pcKeepLook
	pcKeepLead
	pcKeepNext
	pcKeepSlumber
	pcKeepBack
)

// step lets an actor go on. It reports whether it can.
func (m *machine) step(s *state, a int) bool {
	x := &s.at[a]
	if s.touch != 0 && s.owner == uint8(a+1) {
		s.touch = 0
	}
	switch x.pc {
	case pcDone:
		return false
	case pcCall:
		m.call(s, a)
	case pcTake:
		if !m.try(s, a) {
			x.pc = pcAcquire
		}

	// Acquire.
	case pcAcquire:
		if !m.retake(s, a, pcBegin) {
			x.pc = pcWant
		}
	case pcWant:
		m.take(want)
		s.wanted++
		x.pc = pcSpin
	case pcSpin:
		if !m.retake(s, a, pcServed) {
			x.pc = pcWish
		}
	case pcWish:
		m.take(wished)
		x.granted = 0
		m.push(s, wishes|taskOf(a, 0))
		x.pc = pcWishRetake
		if m.mutant == wishWithoutRetake {
			x.pc = pcAwait
		}
	case pcWishRetake:
		if !m.retake(s, a, pcServed) {
			x.pc = pcAwait
		}
	case pcAwait:
		if x.granted == 0 {
			return false
		}
		m.take(granted)
		x.pc = pcSpin
	case pcServed:
		m.take(served)
		if m.mutant != staysWanted {
			s.wanted--
		}
		x.granted = 0
		x.pc = pcBegin

	// A call that is left to others.
	case pcPush:
		m.push(s, taskOf(a, x.call))
		x.then = pcEnd
		x.after = pcFinish
		if m.now(s, a).does.waits() {
			x.then = pcStay
		}
		x.pc = pcPushRetake
		if m.mutant == pushWithoutRetake {
			m.left(s, a)
		}
	case pcPushRetake:
		if !m.retake(s, a, pcBegin) {
			m.left(s, a)
		}

	// A turn.
	case pcBegin:
		m.take(begin)
		if s.tasks.n > 0 && m.mutant != ownBeforeTasks {
			m.run(s, a)
			x.pc = pcDo
		} else {
			m.begun(s, a)
		}
	case pcDo:
		if m.do(s, a) && s.batch.n == 0 {
			m.begun(s, a)
		}
	case pcEnd:
		m.mine(s, a)
		m.tell(s, a)
		if s.armed+s.asleep == 0 || m.mutant == nothingSettled || m.mutant == settledForPoller && s.armed == 0 {
			m.free(s, a)
			break
		}
		m.settle(s, a)
		x.pc = pcFree
	case pcFree:
		m.free(s, a)
	case pcLook:
		m.take(look)
		if s.tasks.n > 0 && m.mutant != noLook {
			x.pc = pcRetake
		} else {
			m.passedOn(s, a)
		}
	case pcRetake:
		if !m.retake(s, a, pcPassRun) {
			m.passedOn(s, a)
		}
	case pcPassRun:
		m.run(s, a)
		x.pc = pcPassDo
		m.passing(s, a) // somebody else may have done them all
	case pcPassDo:
		if m.do(s, a) {
			m.passing(s, a)
		}
	default:
		return m.waitStep(s, a)
	}
	return true
}

// call is the beginning of a call, up to the first thing that others see.
func (m *machine) call(s *state, a int) {
	x := &s.at[a]
	x.then, x.after = pcOwn, pcFinish
	switch does := m.now(s, a).does; does {
	case keep:
		x.waits, x.over, x.result, x.missed = 1, 0, 0, 0
		x.kind, x.pc = Background, pcTake
	case await, lead, event:
		m.must(x.token == 0, "a token is left over from the wait before")
		x.waits, x.over, x.result, x.missed = 1, 0, 0, 0
		x.kind = Operation
		if does == lead {
			x.kind = Always
		}
		if does == event {
			x.kind = Event
		}
		fallthrough
	case submit, panics, exits, ends:
		if !m.try(s, a) {
			x.pc = pcPush
		}
	case ask:
		x.pc = pcTake
	case shut:
		x.pc = pcTake
	case progress:
		x.pc = pcProgress
	case poll:
		x.pc = pcTake
	case signal:
		m.take(signals)
		s.signaled, s.unread = 1, 1
		x.pc = pcSignal
	case sees:
		x.looked = 1 - s.done
		m.finish(s, a)
	}
}

func (m *machine) try(s *state, a int) bool {
	m.take(try)
	if s.wanted != 0 || s.owner != 0 {
		return false
	}
	s.owner = uint8(a + 1)
	s.at[a].pc = pcBegin
	return true
}

func (m *machine) retake(s *state, a int, next pc) bool {
	m.take(retake)
	if s.owner != 0 {
		if m.mutant != twoOwners {
			return false
		}
	}
	s.owner = uint8(a + 1)
	s.at[a].pc = next
	return true
}

func (m *machine) push(s *state, task uint8) {
	m.take(push)
	s.tasks.push(task)
}

// left is behind a push that somebody else will see.
func (m *machine) left(s *state, a int) {
	if m.now(s, a).does.waits() {
		s.at[a].pc = pcPark
	} else {
		m.finish(s, a)
	}
}

func (m *machine) run(s *state, a int) {
	m.take(run)
	m.mine(s, a)
	tasks := s.tasks
	s.tasks = shortList{}
	for tasks.n > 0 {
		task := tasks.item[0]
		if m.mutant == stackNotReversed {
			task = tasks.item[tasks.n-1]
		}
		tasks.remove(task)
		s.batch.push(task)
	}
}

// do carries out a task. It reports whether the goroutine is still there.
func (m *machine) do(s *state, a int) (alive bool) {
	m.mine(s, a)
	task := s.batch.pop()
	b, call := int(task&3), task>>2&7
	if task&wishes != 0 {
		m.take(grant)
		s.at[b].granted = 1
		return true
	}
	m.take(do)
	switch does := m.scripts[b][call].does; {
	case s.abandoned != 0:
		m.carried(s, b, call)
		if does.waits() {
			s.at[b].result = failed
			m.end(s, a, b)
		}
	case does.waits():
		if m.carryOut(s, a, b) {
			m.end(s, a, b)
		} else {
			m.join(s, a, b)
			if m.mutant != leadsUntold {
				s.at[b].token |= s.at[b].leads
			}
		}
	default:
		return m.submit(s, a, b, call)
	}
	return true
}

// submit carries out what nobody waits for.
func (m *machine) submit(s *state, a, b int, call uint8) (alive bool) {
	m.mine(s, a)
	m.carried(s, b, call)
	switch m.scripts[b][call].does {
	case submit:
		if s.closed == 0 {
			s.work = 1
		}
	case panics:
		s.panicked = 1
	case ends:
		if s.closed == 0 {
			s.done = 1
			m.some(s)
		}
	case exits:
		m.lost(s, a)
		return false
	}
	return true
}

// carried notes that a call was carried out, which has to be the next one of b.
func (m *machine) carried(s *state, b int, call uint8) {
	x := &s.at[b]
	m.must(call >= x.next, "a call is carried out twice, or behind one that came later")
	x.next = call + 1
	x.done++
}

// begun goes on with what the turn was taken for.
func (m *machine) begun(s *state, a int) {
	x := &s.at[a]
	x.pc, x.then = x.then, 0
	if s.abandoned != 0 {
		if m.now(s, a).counts() && x.call >= x.next {
			m.carried(s, a, x.call) // refused
		}
		x.pc, x.after = pcEnd, pcFinish
		return
	}
	m.inTurn(s, a)
}

func (m *machine) endTurn(s *state, a int, after pc) {
	s.at[a].pc, s.at[a].after = pcEnd, after
}

func (m *machine) free(s *state, a int) {
	m.take(free)
	m.mine(s, a)
	x := &s.at[a]
	x.p |= s.panicked
	s.panicked = 0
	s.owner = 0
	x.pc = pcLook
}

// passing is behind a task that was found after free.
func (m *machine) passing(s *state, a int) {
	if s.batch.n > 0 {
		return
	}
	s.at[a].pc = pcFree
	if m.mutant == noSettleBehind {
		return
	}
	m.tell(s, a)
	if s.armed+s.asleep != 0 {
		m.settle(s, a)
	}
}

// passedOn is behind a turn.
func (m *machine) passedOn(s *state, a int) {
	x := &s.at[a]
	x.pc, x.after = x.after, 0
	if x.p != 0 && x.pc != pcDone {
		m.take(raise)
		x.p = 0
		x.pc = pcFinish
		if m.now(s, a).does.waits() && m.mutant != panicLeavesWaiter {
			x.then, x.pc = pcUnwind, pcTake
		}
	}
	m.returned(s, a)
}

// returned is behind what may have been the end of a call, or of a turn in it.
func (m *machine) returned(s *state, a int) {
	x := &s.at[a]
	switch {
	case x.pc == pcFinish:
		m.finish(s, a)
	case x.pc == pcTake && x.then == 0 && m.now(s, a).does == poll:
		x.then = pcOwn
	case x.pc == pcTake && x.then == 0 && m.now(s, a).does == keep:
		x.then = pcKeepOn
	case x.pc == pcTake && x.then == 0:
		x.then = pcLead
	}
}

// settle sees to those who sleep.
func (m *machine) settle(s *state, a int) {
	m.take(settle)
	m.mine(s, a)
	if s.closed+s.abandoned != 0 || s.roused != 0 && s.armed == 0 {
		return
	}
	busy := m.arm(s, a)
	if s.asleep != 0 && (busy && m.mutant != settleOnlyArms || m.mutant != noOversleeps && m.leaderOver(s)) {
		m.rouse(s, a)
	}
	if busy && s.armed != 0 && m.mutant != noRingInSettle {
		m.ring(s, a)
	}
}

func (m *machine) leaderOver(s *state) bool {
	if s.leader == 0 {
		m.fail("asleep, and there is no leader")
		return false
	}
	return s.at[s.leader-1].over != 0
}

// lost is a callback that has ended the goroutine of the owner.
func (m *machine) lost(s *state, a int) {
	m.take(lost)
	s.abandoned = 1
	m.close(s, a)
	x := &s.at[a]
	x.done = m.scripts[a].counts()
	x.after = pcDone
	if m.mutant == batchLost {
		s.batch = shortList{}
	}
	if s.batch.n > 0 {
		x.pc = pcPassDo
		return
	}
	x.pc = pcFree
	if m.mutant == lostWithoutLook {
		m.free(s, a)
		x.pc = pcDone
	}
}
