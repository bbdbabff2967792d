// Package conformance runs what programs use a network for over package ucpnet: the tests of
// net.Conn in golang.org/x/net/nettest, and gRPC. It is a module of its own, so that what it
// needs is needed by nobody else.
package conformance
