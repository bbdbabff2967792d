package engine

import (
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// mutant is a machine with one thing changed, which the explorer must find fault with.
type mutant uint8

const (
	faithful mutant = iota
	wishWithoutRetake
	staysWanted
	pushWithoutRetake
	ownBeforeTasks
	noLook
	twoOwners
	stackNotReversed
	nothingSettled
	settledForPoller
	noSettleBehind
	settleOnlyArms
	noOversleeps
	noRingInSettle
	noRing
	ringsWithoutBell
	progressAnswers
	armedUnsaid
	rousedForEver
	rousesWithoutWriting
	asleepUnsaid
	sleepsUnarmed
	wakesOutsideOfTurn
	joinsBehindNobody
	leadsBesides
	leadsUntold
	endWithoutSignal
	endWithoutRouse
	signalBeforeOver
	staysInList
	staysLeader
	noHandOver
	handOverWithoutSignal
	handsOverOutsideOfTurn
	goneThoughLeads
	tokenLeft
	givesUpOutsideOfTurn
	cancelKeepsLeading
	closeEndsNoWaits
	closeRingsNot
	nobodyHears
	happensToOthers
	notSticky
	sleepsOnNews
	sleepsThoughOver
	signalEaten
	looksAtEnded
	staysAsleep
	panicLeavesWaiter
	lostWithoutLook
	batchLost
	dozesForEver
	backWakesAll
	dueForEver
	looksNotForLeader
	noHandBack
	reinstatedAwake
	dozesOn

	mutants
)

// changed says what is, and in which combination that shows.
var changed = [mutants]struct{ what, roles string }{
	wishWithoutRetake:      {"a wish is pushed without trying again", "thrice submit ask"},
	staysWanted:            {"who was waiting for the worker goes on being counted", "thrice submit ask"},
	pushWithoutRetake:      {"a task is pushed without trying again", "thrice submit ask"},
	ownBeforeTasks:         {"the owner does what is its own before the tasks", "thrice submit ask"},
	noLook:                 {"no look for tasks after free", "thrice submit ask"},
	twoOwners:              {"retake is no compare-and-swap", "thrice submit ask"},
	stackNotReversed:       {"the last task first", "thrice submit ask"},
	nothingSettled:         {"settle left out at the end of a turn", "await await"},
	settledForPoller:       {"settle for the poller alone", "await await"},
	noSettleBehind:         {"settle left out behind the tasks after free", "await await"},
	settleOnlyArms:         {"settle arms and does not rouse", "await await"},
	noOversleeps:           {"settle does not ask whether the leader is over", "poll await progress"},
	noRingInSettle:         {"settle does not ring", "poll submit submit"},
	noRing:                 {"a round does not ring", "poll progress"},
	ringsWithoutBell:       {"armed is cleared without ringing", "poll progress"},
	progressAnswers:        {"progress answers the bell", "poll await progress"},
	armedUnsaid:            {"armed is not said", "poll progress"},
	rousedForEver:          {"roused is not cleared", "await await progress"},
	rousesWithoutWriting:   {"roused is said without writing", "await await"},
	asleepUnsaid:           {"the leader does not say that it sleeps", "await await"},
	sleepsUnarmed:          {"the leader sleeps without arming", "await await"},
	wakesOutsideOfTurn:     {"the leader says that it is awake outside of a turn", "await await"},
	joinsBehindNobody:      {"who joins where nobody leads does not lead", "await await"},
	leadsBesides:           {"who joins leads, whoever does", "await await"},
	leadsUntold:            {"who is parked already joins, and is not told that it leads", "await await"},
	endWithoutSignal:       {"end does not signal", "await await"},
	endWithoutRouse:        {"end does not rouse", "await await exit"},
	signalBeforeOver:       {"end signals before over is set", "await await"},
	staysInList:            {"leave leaves the waiter in its list", "again cancel"},
	staysLeader:            {"a leader does not resign", "await await"},
	noHandOver:             {"a leader resigns without handing over", "await await"},
	handOverWithoutSignal:  {"the next leader is not told", "await await"},
	handsOverOutsideOfTurn: {"a leader leaves outside of a turn", "await await"},
	goneThoughLeads:        {"gone without asking whether it leads", "then close"},
	tokenLeft:              {"leave leaves the token", "await await"},
	givesUpOutsideOfTurn:   {"canceled outside of a turn", "again cancel"},
	cancelKeepsLeading:     {"canceled without passing on the lead", "again cancel"},
	closeEndsNoWaits:       {"close does not end waits", "run await close"},
	closeRingsNot:          {"close does not ring", "poll ask close"},
	nobodyHears:            {"a round does not tell those who wait for any event", "event progress"},
	happensToOthers:        {"of any event the leader is not told", "event progress"},
	notSticky:              {"what has happened is told to those alone who sleep already", "watch end"},
	sleepsOnNews:           {"the leader sleeps without telling the news", "watch cancel end"},
	sleepsThoughOver:       {"the leader sleeps though the news have ended its wait", "watch cancel end"},
	signalEaten:            {"a signal is taken by the leader", "event run signal"},
	looksAtEnded:           {"end looks at the waiter after the signal", "await await"},
	staysAsleep:            {"a leader leaves, and asleep stays", "await await panic"},
	panicLeavesWaiter:      {"a panic leaves its waiter behind", "await await panic"},
	lostWithoutLook:        {"no look for tasks when a goroutine is lost", "submit panic exit"},
	batchLost:              {"tasks are lost with the goroutine that had taken them", "both exit ask"},
	dozesForEver:           {"the background waiter is awake and does not say so", "keep cancel submit"},
	backWakesAll:           {"the background waiter wakes up for who leads", "keep run submit"},
	dueForEver:             {"the background waiter looks, and that is not noted", "keep twice"},
	looksNotForLeader:      {"the background waiter leads besides", "keep await run"},
	noHandBack:             {"the background waiter does not get the lead back", "keep cancel"},
	reinstatedAwake:        {"the background waiter leads in its sleep, and nobody knows", "keep cancel submit"},
	dozesOn:                {"the background waiter sleeps though its wait is over", "keep run exit"},
}

// TestMutants is what makes TestProtocol worth something.
func TestMutants(t *testing.T) {
	needtest.Goroutines(t)
	for m := faithful + 1; m < mutants; m++ {
		c := changed[m]
		if _, f := explore(scriptsOf(c.roles), eventsOf(c.roles), m); f != nil {
			t.Logf("%s (%s): %v", c.what, c.roles, f)
		} else {
			t.Errorf("nothing is wrong where %s (%s)", c.what, c.roles)
		}
	}
}
