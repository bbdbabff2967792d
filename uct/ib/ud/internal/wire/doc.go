// Package wire encodes and decodes the packets between ud_verbs interfaces: the header at the
// beginning of every packet, and the contents of connection requests, their replies and puts. The
// package keeps no state; package flow decides how packets are answered.
//
// A packet is the 8 bytes of a [Header], then
//
//	active message   data packed by UCP (a short message: 8 bytes, then data)
//	CREQ             a control header of 40 bytes, then the sender's device address
//	CREP             a control header of 40 bytes
//	PUT              a remote address of 8 bytes, then data
//	ACK, NACK        nothing
//
// The device address is opaque here. Numbers are little-endian: C sends the structs of
// src/uct/ib/ud/base/ud_def.h and ud_iface.h as they are in memory. The format is the same in
// 1.13.1 and 1.22.0.
//
// Packets may come from any host that can reach the port. Parsers check lengths first, reject
// packets that no peer sends, and retain nothing of their input except slices in their results.
package wire
