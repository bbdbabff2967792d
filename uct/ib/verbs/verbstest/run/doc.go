// Package run starts programs on the devices of a network of verbstest: any, as they are,
// C's ibv_devinfo, perftest and ucx_perftest as well as static ones of Go. Nothing is loaded
// into them, and the only right needed is to trace one's own child processes.
//
// A Machine is a computer with these devices. Its programs and all that they start are under
// a filter of system calls (seccomp(2)), by which this process answers for the kernel:
//
//   - calls that name files, where the name is below /dev/infiniband or in the part of /sys
//     that tells of RDMA devices. That part is a tree of files, made from what the network
//     says of itself, and the program gets descriptors of these files (calls.go, tree.go).
//   - close, fstat, write and RDMA_VERBS_IOCTL on an open device. A program has a file in
//     place of the device, at a number from 900 up, so that the filter can tell it from
//     others, and maps it as it would the device; the kernel does that by itself.
//   - sockets of RDMA's netlink are refused, whereupon programs read /sys.
//
// Everything else goes to the kernel at once. Requests are copied out of the program's
// memory with all that they point to, answered by verbstest, and the answers copied back
// (frame.go). Doorbells, queues and data of work requests are the network's own to look for
// there (space.go).
//
// What a program can see of this: it is under a filter, and may not gain rights by
// executing a file (no_new_privs). It cannot chdir(2) into made-up folders. A device belongs
// to the process that has opened it, and is closed when that closes it, ends, or executes
// another program.
//
// This is not a sandbox: a program can access the real files if it tries to.
package run
