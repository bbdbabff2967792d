// Package paper is a device that exists on paper, and a provider for it, for tests of
// the seam: it is as unlike soft-RoCE as a device with queues can be. The program lays
// the queues out in its own memory and names it to the kernel; entries have a variable
// number of blocks and wrap around the end; completions have an owner byte; bells are
// stores to a mapped page; events are numbered, and there is no second one before the
// first is taken.
//
// format.go says what is in the queues. queue.go, send.go, recv.go, cq.go and
// context.go are the provider. device.go and run.go are the kernel's half and the
// adapter, in front of the kernel of package verbstest: objects are made there and
// messages move there, what is in paper's queues is carried over. The adapter works in
// Run, which the test calls: nothing of it runs beside the program.
package paper
