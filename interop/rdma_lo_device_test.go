//go:build linux

package interop

import "testing"

// TestRDMALo runs a part of the matrix on one device, which is on lo in the virtual machine:
// packets to itself never leave it.
func TestRDMALo(t *testing.T) {
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		groups := []group{{settings[0], rdmaRoutes(t, rdmaTransports...)}}
		if rdmaLong {
			runMatrix(t, where, ours, theirs, groups, rdmaSizes())
			return
		}
		runSome(t, where, ours, theirs, groups, 8192)
	})
}
