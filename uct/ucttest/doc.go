// Package ucttest contains conformance tests for transports and tools for their other tests.
//
// Run is the conformance suite of all transports. It selects tests by the capabilities that an
// iface announces, and uses only the interfaces of package uct. A transport conforms if Run
// passes:
//
//	func TestConformance(t *testing.T) {
//		ucttest.Run(t, ucttest.Fixture{Component: component{}, Transport: "tcp", Device: "lo"})
//	}
//
// RunConnManager is the conformance suite of connection managers.
//
// The suites' tools are exported for the tests of individual transports: hosts (a worker with
// an iface), bounded waiting, byte patterns, collectors of active messages, packers and
// recorders of completions, and checks for leaks.
//
// The tools do not depend on elapsed time. Waiting means progressing the hosts until a
// condition holds, for a bounded number of rounds.
//
// Package ucttest/sim is a simulated transport for tests, with fault injection. Package
// ucttest/fault describes the faults.
package ucttest
