package ucttest_test

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// The tests of a transport begin with a test that passes its component to Run.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance
		ucttest.Run(t, ucttest.Fixture{Component: sim.New(sim.Options{}), Loopback: true})
	}
}

// A transport must do what it announces: the suite tries each way to send that the attributes of an
// interface announce, up to its limits.
func ExampleKindsOf() {
	attr := &uct.IfaceAttr{Flags: uct.IfaceAMShort | uct.IfaceAMBcopy}
	attr.AM.MaxShort, attr.AM.MaxBcopy = 128, 8192
	for _, k := range ucttest.KindsOf(attr) {
		fmt.Printf("%s: %d to %d bytes\n", k.Name, k.Min, k.Max(attr))
	}
	// Output:
	// short: 8 to 128 bytes
	// short iov: 0 to 128 bytes
	// bcopy: 0 to 8192 bytes
}
