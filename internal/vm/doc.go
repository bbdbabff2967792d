// Package vm tests the virtual machine in which tests meet RDMA devices: what
// scripts/vm promises (status, output, time limit, nothing left behind), and that
// the machine has the devices, networks and C programs that other tests build on.
// `make test-rxe` runs it; elsewhere its tests are skipped. It exports nothing.
package vm
