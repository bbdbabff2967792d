// Package platform is what the library takes from the Go runtime that differs from run to run: the
// clock, random numbers, and the order in which goroutines run.
//
// In a normal build its functions are the runtime's. With the build tag simulate a World provides
// them: time is a number that the world advances, random numbers come from a seed, and of the
// goroutines of the world one runs at a time, chosen by the world. The whole library then runs
// deterministically in one process (package simnet), with the same code above this package. With
// the tag, package ucs/event watches no descriptors, and the transports of the operating system do
// not work.
//
// Only waits that a test of the whole library can meet go through this package. Short critical
// sections with a mutex need not: no goroutine of a world is interrupted in one.
package platform
