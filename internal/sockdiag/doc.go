// Package sockdiag asks the kernel, through NETLINK_SOCK_DIAG (sock_diag(7)), for the owners of TCP
// sockets of this network namespace: of the other end of a connection within the machine, and of
// the listener at an address. It needs no rights. If the kernel does not answer, the result is an
// error, never a guess.
package sockdiag
