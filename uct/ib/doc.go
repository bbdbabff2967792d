// Package ib is RDMA devices as memory domains, and what the transports over them
// share: rc_verbs (uct/ib/rc), ud_verbs (uct/ib/ud) and the connection manager rdmacm
// (uct/ib/cm). Those register themselves; a program that imports none of them has
// domains without resources.
//
// # Devices
//
// A device that package verbs can open is a domain, and each of its active ports one
// resource of each transport that the device can carry, named device:port as in C UCX.
// A port is used with one entry of its table of GIDs, that of RoCE version 2 with an
// IPv4 address if there is one, or that which UCX_IB_GID_INDEX says.
//
// # What crosses the wire
//
// Device addresses (Address) and remote keys (AppendKey), in the formats of C UCX; what
// the queue pairs exchange is for the transports to say.
//
// # Memory
//
// A device reads and writes nothing that is not registered. What the caller sends
// from his memory or reads into it he registers with the domain; what is copied lies in
// pools of an interface (SendPool, RecvPool). These begin small, grow while traffic
// needs more, keep what they have, and stop growing at half of what the process may pin, the
// rest of which is for what is registered beside them (budget.go): a worker with
// both transports fits into the 8 MiB that an ordinary user has (RLIMIT_MEMLOCK).
//
// # Waiting
//
// An interface has a queue for completions of sends and one of receives, with one
// channel, whose descriptor is in the event set of its worker. A device tells of what
// comes after it was asked to, and of nothing before: Iface.Arm looks once more behind the
// question.
package ib
