// Package conformance runs common users of package net over package ucpnet: the tests of net.Conn
// in golang.org/x/net/nettest, and gRPC. It is a separate module, so that its dependencies are not
// dependencies of ucx.
package conformance
