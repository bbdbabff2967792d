// Package vm tests the virtual machine in which tests use RDMA devices: the promises of scripts/vm
// (status, output, time limit, nothing left behind), and the devices, networks and C programs that
// other tests need in the machine. `make test-rxe` runs it; elsewhere its tests are skipped. It
// exports nothing.
package vm
