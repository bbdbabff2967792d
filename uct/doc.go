// Package uct is the transport contract: what a transport offers to the layer above it, and
// what it may ask for.
//
// The objects, from the outside in:
//
//   - A Component is a family of transports ("tcp", "self", …). It registers
//     itself with Register and lists memory domains.
//   - A MemoryDomain registers and allocates memory and lists the transport
//     resources (transport name and device) that work with it.
//   - An Iface is one opened resource: its own address, its capabilities and
//     its receive side. It is progressed by the Worker it was opened on.
//   - An Endpoint is the send side toward one peer Iface.
//   - A ConnManager, which some Components have, connects processes by socket
//     address, so that they can exchange what they need to make Endpoints.
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
//   - nil: done. The buffer may be reused and no completion follows.
//   - ucs.InProgress: accepted. The given Completion is notified when the
//     operation has ended; a nil Completion gets no notification.
//   - an error: nothing was started, nothing was packed and no completion
//     follows. ucs.ErrNoResource means "later": queue a Pending and it is
//     dispatched, in order, when the transport can continue.
//
// A call that ran a handler, because the transport delivers inline, never returns
// ucs.InProgress. So a completion may be lent to a call that most likely needs none.
//
// A buffered write is not done: a transport that collects small messages returns
// ucs.InProgress until the bytes have left its buffer.
//
// # Allocation
//
// Slices and structs that pass through an interface call escape to the heap. Therefore the
// hot calls take no argument that the caller would have to build: headers are scalars, or
// are packed into the transmit buffer by a Packer that the caller's request object
// implements, and scatter-gather lists are kept in that same object. A conforming transport
// allocates nothing per operation in steady state; ucttest checks it through the
// interfaces.
//
// To add a transport, read this package and one existing transport (self is the smallest),
// register a Component from init, and run ucttest.Run against it.
package uct
