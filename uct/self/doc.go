// Package self is the transport of a worker to itself: active messages, remote memory
// access and atomics within one iface. It is also the example for authors of transports.
//
// # How it works
//
// A message is copied once, into a buffer of the iface, and its handler runs inside the send.
// If a handler sends, the receiving handler runs nested inside it. Beyond a fixed depth,
// messages go to a backlog that the next progress round delivers, so that no chain of handlers
// can grow the stack without limit. To keep the order, every message of the iface is appended
// to the backlog while it is not empty. The backlog is bounded: when it is full, a send returns
// ucs.ErrNoResource and may be queued as pending.
//
// An endpoint connects only to the iface that it was created on: another iface of the same
// process, on another worker, is not reachable, as in C UCX (src/uct/sm/self/self.c,
// uct_self_iface_is_reachable_v2).
//
// Remote memory is the memory registered with the domain, at its virtual addresses. A key gives
// access to one registration. C UCX accesses any address; this package returns
// ucs.ErrInvalidAddr for an access outside the memory of the key, or without permission.
//
// # The files, for an author of a transport
//
// Read them in this order. Each method's comment names the part of the contract that it fulfils
// (package uct) and says what is particular to this transport. The package imports only ucs, uct
// and uct/kit, so a transport in another module can be built of the same parts.
//
//  1. component.go registers the Component from init and lists the memory domains. settings.go
//     registers the settings, which are read when a domain or an iface is opened.
//  2. domain.go is the MemoryDomain: it lists the resources, registers memory and packs keys. A
//     transport without remote access returns ucs.ErrUnsupported and announces no flag for it.
//  3. iface.go opens the resource. The attributes announce what endpoints can do, with limits and
//     costs; an iface announces no more than its endpoints do. It registers itself with the worker
//     as a Progressor.
//  4. connect.go makes the address that peers use, and checks the addresses of peers, which are
//     untrusted.
//  5. endpoint.go is the Endpoint: creation, flush, pending requests, failure and close. An
//     endpoint that has failed or is closed refuses everything with the same error.
//  6. am.go sends active messages. It is the fast path: one condition separates the usual case
//     from all others, and nothing allocates.
//  7. progress.go delivers messages, retries pending requests and reports failures, in that order.
//     backlog.go is the queue of messages.
//  8. rma.go and atomic.go are optional capabilities of endpoints (uct.RMA, uct.Atomic), and
//     find.go is one of ifaces (uct.ProcessIface). self has no uct.NetworkEndpoint and no
//     uct.Connection, because its peer is the worker itself.
//
// self_test.go runs the conformance suite (ucttest.Run) for each setting that changes the path of
// a message. The other tests are about what the suite cannot know: the backlog, and the order of
// nested messages.
package self
