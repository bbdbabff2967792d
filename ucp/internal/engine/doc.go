// Package engine gives many goroutines access to one object, a worker, without a mutex: one
// goroutine at a time owns it. A goroutine that finds the object owned by another can leave a task
// for the owner, and continue.
//
// # Ownership
//
// A goroutine owns the engine from a successful Try, a compare-and-swap of one word, until Free, a
// store to that word. It owns the engine for the length of a call. A goroutine that waits for an
// event, or sleeps, does not own the engine.
//
// A goroutine that does not get the engine may push a task, which the current or the next owner
// carries out. Two rules ensure that no task is lost or overtaken. First, an owner carries out
// the pushed tasks before it does anything else, so a task that a goroutine has pushed comes before
// what the same goroutine does later. Second, the owner checks for tasks again after Free, and a
// goroutine tries to take the engine after it has pushed a task. If a push and a Free happen at the
// same moment, at least one side sees the other, because each side then checks the other's word.
// Either the pushing goroutine takes the engine, or the goroutine that owns it has not checked for
// tasks yet.
//
// A call that needs its result at once waits for the engine: it spins for a moment, then pushes a
// task that wakes it (type wakeTask), and parks until an owner has carried out this task. As long as a
// goroutine waits for the engine, goroutines that come later do not take the engine before it.
//
// # Progress
//
// One of the goroutines that wait for something to happen is the leader. It takes the engine again
// and again, for one round of progress each time, and sleeps when there is nothing to do; it does
// not own the engine while it sleeps. The other goroutines park, each on its own channel. They are
// woken when their wait is over, or when they become the leader. A goroutine must own the engine
// to join the waiters, to end a wait or to leave. So if a waiter parks while a leader leaves, one
// of the two comes first: either the waiter finds no leader and becomes the leader, or the leader
// finds the waiter and makes it the leader.
//
// The leader prepares its sleep as the owner: it arms the events that will wake it, records that it
// is asleep, and frees the engine. A later owner may do something that needs the leader, or that
// causes events that are not armed. Therefore each owner that finds the leader asleep arms again
// before Free, and wakes the leader if there is already something to do.
//
// A background waiter is the leader while no other goroutine waits (background.go).
//
// # One goroutine
//
// A nil *Engine serves an object that only one goroutine uses at a time. A waiter that joins it is
// the leader at once. No other goroutine exists that could be woken, so the methods of waiting and
// sleeping (Ready, Join, End, Leave, Woken, News, AnnounceNews, Sleeps) only record in the waiter
// whether it leads and whether its wait is over. The methods of ownership need an engine.
//
// model_test.go describes this protocol as a state machine, and tests try every interleaving of a
// few goroutines. The code names the steps of the machine in comments with brackets.
package engine
