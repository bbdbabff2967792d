// Package ib provides RDMA devices as memory domains, and the code that their transports share:
// rc_verbs (uct/ib/rc), ud_verbs (uct/ib/ud) and the connection manager rdmacm (uct/ib/cm). These
// packages register themselves; in a program that imports none of them the domains offer no
// transports.
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
// The package defines device addresses (Address) and remote keys (Domain.AppendKey), in the
// formats of C UCX. The transports define what their queue pairs exchange.
//
// # Packages below
//
// A device reads and writes only registered memory: regions of the caller, and an interface's pools
// for copied data (internal/memory). A worker with both transports fits into the 8 MiB that an
// ordinary user may pin (RLIMIT_MEMLOCK). Package internal/handles caches the address handles that
// datagrams need, and resolves the hardware addresses of neighbors on RoCE paths. Package
// internal/events passes asynchronous events of the device to the interfaces that they concern.
//
// # Waiting
//
// An interface has a completion queue for sends and one for receives, with one channel,
// whose descriptor is in the event set of its worker. A device reports only completions
// that arrive after the request for notification, so Iface.Arm polls once more after the
// request.
package ib
