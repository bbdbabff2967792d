//go:build !linux

package main

import "io"

// These types are empty because package verbs supports no RDMA devices on this system.
type (
	rdma        struct{ err error }
	jsonRDMA    struct{}
	rdmaMachine struct{}
)

var thisMachine rdmaMachine

func (rdmaMachine) find() (r rdma) { return r }

func writeRDMA(io.Writer, rdma) {}

func rdmaJSON(rdma) []jsonRDMA { return nil }
