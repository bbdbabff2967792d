// Package wire is what crosses the network between ud_verbs interfaces, as bytes:
// the header that every packet begins with, and behind it what connection requests,
// their replies and puts carry. Nothing here remembers anything; who answers what
// is package flow's.
//
// A packet is the 8 bytes of a [Header], then
//
//	active message   what UCP has packed (a short one: 8 bytes, then data)
//	CREQ             a control header of 40 bytes, then the sender's device address
//	CREP             a control header of 40 bytes
//	PUT              a remote address of 8 bytes, then data
//	ACK, NACK        nothing
//
// The device address is opaque here. Numbers are little-endian: C writes the structs
// of src/uct/ib/ud/base/ud_def.h and ud_iface.h as they lie in memory. The format is
// the same in 1.13.1 and 1.22.0.
//
// Bytes come from anyone who can reach the port. Parsers look at lengths first,
// refuse what no peer sends, and keep nothing of what they are given but slices of it.
package wire
