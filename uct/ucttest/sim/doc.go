// Package sim is a simulated transport for tests: it moves bytes between ifaces of one process,
// counts progress rounds instead of time, and injects faults on demand (package fault).
//
// Ifaces that share a Network reach each other; two components on one network represent two
// hosts. The package does not register a component when it is imported.
//
//	net := sim.NewNetwork()
//	a := sim.New(sim.Options{Name: "a", Network: net})
//	b := sim.New(sim.Options{Name: "b", Network: net, Plan: fault.DropAt(7)})
//
// # Execution of operations
//
// The send call puts an active message into the inbox of the peer's iface. The peer's progress
// passes it to its handler Options.Latency rounds later. The bytes of a zero-copy message are
// read from the sender's memory only then, after which the operation completes. Remote memory
// accesses take effect in progress rounds of the sender, in order and as late as possible: a
// put is not visible before its turn, and a get fills the buffer just before its completion.
// Tests thus detect a layer above that does not wait. Accesses are checked against the target's
// registrations, and the key must belong to the target.
//
// A pairwise connected endpoint fails if it sends before the other end is connected, like a
// device that receives no acknowledgement.
//
// The simulation is deterministic if one goroutine progresses all hosts. Each host may also be
// progressed by its own goroutine.
package sim
