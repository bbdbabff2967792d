// Package engine lets any number of goroutines use something that belongs to one at a
// time, a worker, without a mutex: who finds it taken leaves behind what is to be done,
// and goes on.
//
// # Who has it
//
// A goroutine owns the engine from a try that succeeds, a compare-and-swap of one word,
// until free, a store to it. It is the owner for the length of a call: nobody who waits
// for something to happen, or sleeps, is.
//
// Who does not get it may push a task, something to be done by the owner, whoever that
// is. Two rules see to it that none is lost or overtaken. The owner does what was
// pushed before it does anything of its own: what a goroutine has pushed comes before
// what it does itself later. And after free the owner looks again for tasks; who pushes
// tries again after that. Of a push and a free at the same moment one is seen by the
// other, as both are followed by a look at the other's word. Either the pusher's try
// succeeds, or the one that makes it fail has not looked yet.
//
// Calls whose results are needed now wait for the engine: they spin for a moment, then
// they push a wish, a task that wakes them, and park until some owner has done it. As
// long as somebody is waiting those who come to take the engine let him go first.
//
// # Who makes progress
//
// Of the goroutines that wait for something to happen one is the leader. It takes
// the engine again and again, a round of progress each time, and sleeps when there is
// nothing to do, not as the owner. The others park, each on a channel of its own, and
// are woken by the end of what they wait for, or to lead. Joining, ending and
// resigning are the owner's steps: of a waiter that parks and a leader that leaves one
// comes first, and either the one finds no leader and leads, or the other finds him and
// hands over.
//
// The leader falls asleep as the owner: it arms the events that will wake it, says that it
// is asleep, and frees the engine. What another owner does behind that may need the
// leader, or wake events that are not armed: so each owner that finds it asleep arms
// again before free, and wakes it if there is something to do already.
//
// A background waiter leads where there is no other (background.go).
//
// model_test.go is this protocol as a state machine, of which every interleaving of a few
// goroutines is tried. Its steps have the names that stand beside those of the code.
package engine
