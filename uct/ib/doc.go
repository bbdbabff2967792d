// Package ib provides RDMA devices as memory domains, and what the transports over them
// share: rc_verbs (uct/ib/rc), ud_verbs (uct/ib/ud) and the connection manager rdmacm
// (uct/ib/cm). These register themselves; a program that imports none of them has domains
// without resources.
//
// # Devices
//
// A device that package verbs can open is a domain. Each of its active ports is one
// resource of each transport that the device supports, named device:port as in C UCX. A
// port is used with one entry of its GID table: UCX_IB_GID_INDEX if set, else the entry of
// RoCE version 2 with an IPv4 address if there is one.
//
// # On the wire
//
// The package defines device addresses (Address) and remote keys (AppendKey), in the
// formats of C UCX. The transports define what their queue pairs exchange.
//
// # Memory
//
// A device reads and writes only registered memory. A caller registers memory that it sends
// from or reads into with the domain; copied data lies in pools of an interface (SendPool,
// RecvPool). The pools begin small, grow while traffic needs more, and do not shrink. They
// stop growing at half of what the process may pin; the rest is for other registered memory
// (budget.go). A worker with both transports fits into the 8 MiB
// that an ordinary user may pin (RLIMIT_MEMLOCK).
//
// # Waiting
//
// An interface has a completion queue for sends and one for receives, with one channel,
// whose descriptor is in the event set of its worker. A device reports only completions
// that arrive after the request for notification, so Iface.Arm polls once more after the
// request.
package ib
