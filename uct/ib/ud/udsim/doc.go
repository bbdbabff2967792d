// Package udsim is a simulated transport of datagrams under the state machine of ud_verbs, for tests:
// the same connections, windows, acknowledgements, retransmissions and timeouts as over a device, on
// a network that loses, duplicates and reorders packets.
//
// It has no device: a packet is a slice that arrives at the other interface's queue at a time that a
// medium chooses (sim.Medium), and a send queue is a time at which it has room. A world with one
// goroutine at a time progresses all interfaces (package simnet).
//
// It registers nothing, and has active messages only.
package udsim
