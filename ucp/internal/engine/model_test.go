package engine

// The protocol as a state machine. A state is a value; an actor is a goroutine that works
// off a script of calls and is somewhere in one. Each function of the machine is one
// step of an actor, as fine as others could come in between: what an owner does with
// what is its own is one step, what others see, or change, is a step each. Loops that only
// try again (spinning) are one try: each further one is a state that is reached anyway.
//
// Of the worker there is what the protocol is about: operations that end when
// an event has come from outside and a round of progress has handled it, work that only
// a round does, and an event set that is readable if it was armed before an event.

const actors = 3

type bit = uint8 // 0 or 1: comparable, small, and can be summed up

type state struct {
	// The engine.
	owner  uint8 // actor that owns the engine, from 1; 0 if none does
	wanted uint8
	tasks  shortList // pushed tasks, oldest first
	batch  shortList // tasks that the owner carries out, oldest first

	leader  uint8
	waiting [kinds]shortList
	asleep  bit

	background       uint8 // actor that leads while no call waits
	dozing, due, led bit

	// The worker.
	closed, abandoned  bit
	panicked           bit // a callback has, and no call has said so
	work               bit // for a round of progress, without an event
	incoming           bit // an event that nobody in particular waits for has come
	news, untold       bit // something has happened in this turn; and was told to those who sleep
	done               bit // an operation has ended that some look at before they sleep
	roused, eventFD    bit
	hardware, readable bit // events will make the set readable; they have
	armed, bell        bit // the application sleeps on the descriptor; it was rung for
	signaled           bit

	events uint8 // incoming ones that may still come
	unread bit   // a signal of which the application has not been told
	touch  uint8 // whose waiter the owner is still looking at, in the middle of a step

	at [actors]actor
}

// actor is a goroutine.
type actor struct {
	call  uint8 // of its script
	pc    pc
	then  pc // when the turn has begun
	after pc // when it has ended
	n     bit
	err   bit // why the leader woke up
	p     bit // a panic to be raised at the end of the turn

	granted bit   // the wish
	ended   bit   // the context
	next    uint8 // no call before that may be carried out any more
	done    uint8 // how many of its calls were carried out

	// Its waiter.
	kind                Kind
	waits               bit // from Ready until the call returns
	joined, leads, over bit
	token               bit // in the channel
	op                  operation
	result              outcome
	missed              bit // what it waits for has happened: it has to be told
	looked              bit // and has not seen that it is done
}

// operation is the state of what an actor waits for.
type operation uint8

const (
	none     operation = iota
	inFlight           // needs an event
	arrived            // and a round of progress
)

// outcome is how a wait ends.
type outcome uint8

const (
	_ outcome = iota
	succeeded
	canceled
	failed
)

// shortList is a short list of actors, or tasks.
type shortList struct {
	n    uint8
	item [6]uint8
}

func (l *shortList) push(x uint8) {
	l.item[l.n] = x
	l.n++
}

func (l *shortList) pop() uint8 {
	x := l.item[0]
	l.cut(0)
	return x
}

func (l *shortList) cut(i uint8) {
	copy(l.item[i:], l.item[i+1:])
	l.n--
	l.item[l.n] = 0
}

func (l *shortList) remove(x uint8) bool {
	for i := range l.n {
		if l.item[i] == x {
			l.cut(i)
			return true
		}
	}
	return false
}

// A task is that of a call of an actor, or its wish.
const wishes = 0x80

func taskOf(a int, call uint8) uint8 { return uint8(a) | call<<2 }

// machine makes steps. What a step does besides changing the state is said here.
type machine struct {
	scripts [actors]script
	mutant  mutant

	choice, choices int // which of how many ways to go on it takes
	took            stepSet
	wrong           string // what must not be
}

// script is what an actor calls, one after the other.
type script []call

type call struct {
	does   deed
	cancel bool // its context may end
}

type deed uint8

const (
	submit   deed = iota // starts what need not be waited for, and leaves work for a round
	panics               // submits what has a callback that panics
	exits                // and one that ends its goroutine
	ends                 // submits what ends the operation that others look at
	ask                  // needs the worker now
	await                // Wait of an operation
	lead                 // Run
	event                // Worker.Wait
	keep                 // leads in the background
	progress             // Progress
	poll                 // Arm and Progress until there is nothing, then sleeps on the descriptor
	signal               // Signal
	shut                 // Close
	sees                 // looks whether that operation is done
)

func (d deed) waits() bool { return d == await || d == lead || d == event || d == keep }

// counts reports whether it is to be carried out, by whomever.
func (c call) counts() bool { return c.does <= keep }

func (s script) counts() (n uint8) {
	for _, c := range s {
		if c.counts() {
			n++
		}
	}
	return n
}

func (m *machine) now(s *state, a int) call { return m.scripts[a][s.at[a].call] }

// choose takes one of n ways.
func (m *machine) choose(n int) int {
	m.choices = n
	return m.choice
}

func (m *machine) fail(why string) {
	if m.wrong == "" {
		m.wrong = why
	}
}

func (m *machine) must(ok bool, why string) {
	if !ok {
		m.fail(why)
	}
}

// mine is said by what only the owner may do.
func (m *machine) mine(s *state, a int) {
	m.must(s.owner == uint8(a+1), "what is the owner's is touched by somebody else")
}
