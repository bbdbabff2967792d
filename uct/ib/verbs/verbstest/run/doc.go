// Package run starts unmodified programs on the devices of a verbstest network: the C programs
// ibv_devinfo, perftest and ucx_perftest as well as static Go programs. Nothing is loaded into the
// programs, and the only right needed is to trace child processes.
//
// A Machine is a simulated computer with these devices. Its programs and all their children run
// under a system call filter (seccomp(2)), by which this process answers some calls in place of the
// kernel:
//
//   - calls with a file name below /dev/infiniband or in the part of /sys that lists RDMA devices.
//     That part is a tree of files that is made from the network's listing; the program gets
//     descriptors of these files (calls.go, tree.go).
//   - close, fstat, write and RDMA_VERBS_IOCTL on an open device. In place of the device a program
//     has a regular file, whose descriptor is 900 or higher so that the filter can recognize it. The
//     program maps the file like the device; the kernel does that without this package.
//   - creation of RDMA netlink sockets, which is refused, so that programs read /sys instead.
//
// All other calls go directly to the kernel. A request is copied out of the program's memory with
// all that it points to, answered by verbstest, and the answer is copied back (frame.go). The
// network itself accesses doorbells, queues and the data of work requests in the program's memory
// (space.go).
//
// A program can notice that it runs under a filter and cannot gain rights by executing a file
// (no_new_privs). It cannot chdir(2) into the simulated folders. A device belongs to the process
// that has opened it, and is closed when the process closes it, ends, or executes another program.
//
// This is not a sandbox: a program can access the real files if it tries to.
package run
