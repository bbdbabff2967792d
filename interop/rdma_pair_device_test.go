//go:build linux

package interop

import (
	"os"
	"slices"
	"testing"
)

// TestRDMAMachines runs a part of the matrix between two machines, and connections by socket
// address. It runs on both; on the second it only starts programs for the first.
func TestRDMAMachines(t *testing.T) {
	if os.Getenv("VM_NET") != "nic" {
		t.Skip("VM_NET is not nic: make test-rxe runs this in two virtual machines")
	}
	_, theirs := rdmaSides(t)
	if os.Getenv("VM_HOST") != "1" {
		serveFar(t, theirs.host)
		return
	}
	defer newFarPlace(theirs.host).endFar(t)
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		groups := []group{{settings[0], append(rdmaRoutes(t, rdmaTransports...), allTransports)}}
		if rdmaLong {
			runMatrix(t, where, ours, theirs, groups, []int{8, 65536})
			return
		}
		if groups[0].routes = slices.Concat(groups[0].routes[:2], groups[0].routes[3:]); theirs.ours {
			groups[0].routes = groups[0].routes[:2]
		}
		runSome(t, where, ours, theirs, groups, 65536)
	})
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if over.name != reliable && over.name != anyIB && !rdmaLong {
			return
		}
		listens(t, where, ours, theirs, weServe, over, "peer", "other worker", 8, 100_000)
	})
}
