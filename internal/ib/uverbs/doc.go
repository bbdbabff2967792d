// Package uverbs makes the calls of package abi: it builds requests as the table
// there describes them, hands them to an open device, and turns what comes back
// into values or one kind of error. With VERBS_DEBUG=1 in the environment each call
// is printed to standard error.
//
// A File is the device, or something that behaves like one; package verbstest has
// one without a kernel. What the objects mean is package verbs.
package uverbs
