// Package uverbs makes the calls of package abi: it builds requests by the table of that package,
// passes them to an open device, and converts the answers to values or to one type of error. With
// VERBS_DEBUG=1 in the environment each call is printed to standard error.
//
// A File is the device, or a substitute; package verbstest has one without a kernel. Package verbs
// is the layer of objects above.
package uverbs
