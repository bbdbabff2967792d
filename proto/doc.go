// Package proto defines UCP's wire formats and its protocol decisions.
//
// Both parts are pure: no I/O, no goroutines, no clocks, no state.
//
// Wire formats. Every UCP active-message header, the worker address, the wireup messages,
// packed remote keys and the private data of client/server connections have a pair of
// functions: Append (and Put, which packs into a transmit buffer) and Parse. Integers are
// little-endian. A Parse function accepts untrusted bytes: it returns a value or an error,
// never reads past its argument and never allocates by a length that a peer claims. Slices
// in a parsed value alias the input.
//
// Decisions. SelectLanes scores the resources of two workers against each other and returns
// the lanes of an endpoint; NewMessageTables, NewRndvTables and NewRMATables turn the attributes
// of those lanes into tables from message length to protocol. All are functions from plain
// attribute structs, which package ucp fills, to plain values that print themselves: candidates,
// scores, and the reason why each of the others was rejected.
//
// The package knows no transport and no UCP object. It serves package ucp and tools that inspect
// the wire. Its Go API carries no promise of compatibility: names change when ucp needs it; only
// the wire formats are stable.
package proto
