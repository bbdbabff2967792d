// Package sockdiag asks the kernel, by NETLINK_SOCK_DIAG (sock_diag(7)), whose the
// TCP sockets of this network namespace are: the other end of a connection within
// the machine, and who listens at an address. Needs no rights. What the kernel does
// not tell is an error, never an answer.
package sockdiag
