// Package proto is what UCP says on the wire and how it decides what to say.
//
// Both halves are pure: no I/O, no goroutines, no clocks, no state.
//
// Wire formats. Every UCP active-message header, the worker address, the wireup
// messages, packed remote keys and the private data of client/server
// connections come as pairs: Append (and Put, which packs into a transmit
// buffer) against Parse. Integers are little-endian. A Parse takes any bytes
// from anybody: it returns a value or an error, never reads past its argument
// and never allocates by a length that a peer claims. Slices in a parsed value
// alias the input.
//
// Decisions. SelectLanes scores the resources of two workers against each other
// and says which lanes an endpoint has; NewMessageTables and NewRndvTables turn the
// attributes of those lanes into tables from message length to protocol. All are
// functions from plain attribute structs, which package ucp fills, to plain
// values that print themselves: candidates, scores, and why each of the others
// was rejected.
//
// The package knows no transport and no UCP object. It is there for package ucp and
// for tools that look at the wire; it carries no promise: names change when ucp
// needs it, and only the bytes stay.
package proto
