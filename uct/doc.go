// Package uct defines the interface between transports and the layer above them (ucp): the
// services that a transport offers, and those that it may use.
//
// The main objects are:
//
//   - A Component is a family of transports ("tcp", "self", …). It registers
//     itself with Register and lists memory domains.
//   - A MemoryDomain registers and allocates memory and lists the transport
//     resources (transport name and device) that work with it.
//   - An Iface is one opened resource: its own address, its capabilities and
//     its receive side. It is progressed by the Worker it was opened on.
//   - An Endpoint is the send side toward one peer Iface. A Source is the receiving side of a
//     connection.
//   - A ConnManager, which some Components have, connects processes by socket
//     address, so that they can exchange the addresses that Endpoints need.
//   - A Worker is one progress engine with one event set, shared by its Ifaces.
//
// # Goroutines
//
// A Worker and all objects that were opened on it belong to one goroutine at a time; the
// layer above ensures that. Handlers and completions run inside Worker.Progress, or inside
// the call that caused them where its comment says so, and may start new operations. They
// must not call Progress.
//
// # Results of an operation
//
// Every operation that can be refused returns one of three things:
//
//   - nil: done. The buffer may be reused, and no completion follows.
//   - ucs.InProgress: accepted. The given Completion is notified when the
//     operation has ended; a nil Completion gets no notification.
//   - an error: nothing was started, nothing was packed and no completion
//     follows. ucs.ErrNoResource means "later": queue a Pending, which is
//     dispatched, in order, when the transport can continue.
//
// A call that ran a handler, because the transport delivers inline, never returns
// ucs.InProgress. A caller may therefore pass a shared Completion to a call that most likely
// completes at once: no nested operation of a handler can hold the same Completion.
//
// A buffered message is not done: a transport that collects small messages returns
// ucs.InProgress, and notifies the completion when the bytes have left its buffer.
//
// # Allocation
//
// Slices and structs that pass through an interface call escape to the heap. Therefore the
// calls on the fast path take no argument that the caller would have to build: headers are
// scalars, or are packed into the transmit buffer by a Packer that the caller's request object
// implements, and the same object holds the scatter-gather lists. A conforming transport
// allocates nothing per operation in steady state; package ucttest checks this through the
// interfaces.
//
// # Files, in the order in which to read them
//
//   - component.go, md.go, iface.go, endpoint.go: the objects that every transport has, from the
//     one that registers itself to the one that sends. attr.go: their attributes.
//   - am.go, packer.go, completion.go, pending.go: what an operation consists of.
//   - source.go: the receiving side of a connection.
//   - worker.go: the progress engine, and what a transport registers with it.
//   - capabilities.go: everything that only some transports have, with what the layer above does
//     without it. defaults.go: structs to embed for the methods that a transport does not need.
//   - connmanager.go: connections by socket address, for components that have them.
//
// Package uct/self is the example of a transport; its comment goes through the files of a
// transport and says what to write. Package uct/kit has the parts that transports are made of,
// and package uct/ucttest the suite that a transport passes. A transport may live in another
// module: it imports these packages, registers its Component from init, and is used by every
// program that imports it.
package uct
