// Package sim is a transport made for tests: it moves bytes between ifaces of
// one process, in rounds of progress instead of time, and does what goes wrong
// on demand.
//
// Ifaces that share a Network reach each other; two components on one network
// are two hosts. Nothing is registered by importing the package.
//
//	net := sim.NewNetwork()
//	a := sim.New(sim.Options{Name: "a", Network: net})
//	b := sim.New(sim.Options{Name: "b", Network: net, Plan: fault.DropAt(7)})
//
// # How operations move
//
// An active message is put into the inbox of the peer's iface in the call and
// handed to its handler by the peer's progress, Options.Latency rounds later. A
// zero-copy message is read from the sender's memory at that moment, and only
// then completed. Remote memory access happens in rounds of the sender, in order
// and at the last moment: a put is not visible before its turn, a get fills the
// buffer just before its completion, so a layer above that does not wait is
// found out. Accesses are checked against the target's registrations and the
// key must be the target's.
//
// An endpoint that is connected pairwise fails when it sends before the other end is
// connected, as a device does that gets no acknowledgement.
//
// All is deterministic as long as one goroutine progresses all hosts. Hosts may
// also be progressed by goroutines of their own.
package sim
