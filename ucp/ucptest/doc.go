// Package ucptest holds the tests of package ucp that know no more than its users
// do: the suite that every transport passes, the harness that drives several
// workers from one goroutine, and what whole programs feel (allocations, system
// calls, limits of the machine, other users). It has test files only.
//
// What a test does to the inside of ucp, or as a peer that breaks the rules, is
// beside ucp's files.
package ucptest
