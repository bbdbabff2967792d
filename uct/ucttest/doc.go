// Package ucttest tests transports.
//
// Run is one conformance suite for all of them. It is driven by the
// capabilities an iface announces and works through the interfaces of package
// uct only, so a transport conforms when Run passes:
//
//	func TestConformance(t *testing.T) {
//		ucttest.Run(t, ucttest.Fixture{Component: component{}, Transport: "tcp", Device: "lo"})
//	}
//
// RunConnManager is another one, for connection managers.
//
// The rest are the suites' tools, for the tests that a transport adds of its
// own: hosts (a worker with an iface), bounded waiting, byte patterns,
// collectors of active messages, packers and recorders of completions, and
// checks for leaks.
//
// Nothing here sleeps or measures time. Waiting means progressing the hosts
// until a condition holds; it is bounded by a number of rounds.
//
// Package ucttest/sim is a transport made for tests, with faults on demand.
package ucttest
