//go:build linux

package interop

import "testing"

// TestRDMACancel is TestCancelArrival over RDMA devices.
func TestRDMACancel(t *testing.T) {
	rounds := 12
	if rdmaLong {
		rounds = 1000
	}
	number := uint64(0)
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			for _, s := range cancelSettings {
				number++
				s.mode = "peer"
				t.Run(over.name+"/"+s.name, func(t *testing.T) { givenUp(t, where, ours, theirs, s, over, rounds, number) })
			}
		}
	})
}
