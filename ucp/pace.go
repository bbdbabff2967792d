package ucp

// How long a wait burns CPU before it sleeps: rounds of progress, then rounds
// that let other goroutines run in between.
const (
	spinRounds  = 512
	yieldRounds = 32
)

// pace says what to do between two rounds of progress.
type pace struct{ idle int }

// What to do after a round.
type paceStep uint8

const (
	paceSpin  paceStep = iota // the next one
	paceYield                 // let other goroutines run
	paceSleep                 // until something happens
)

// begin starts a wait, or goes on after a sleep.
func (p *pace) begin() { p.idle = 0 }

// paid notes that what was waited for has happened.
func (p *pace) paid() {}

// next says what to do after a round that has handled n events.
func (p *pace) next(n int) paceStep {
	if n > 0 {
		p.idle = 0
	}
	p.idle++
	switch {
	case p.idle < spinRounds:
		return paceSpin
	case p.idle < spinRounds+yieldRounds:
		return paceYield
	}
	return paceSleep
}
