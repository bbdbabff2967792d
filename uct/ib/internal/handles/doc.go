// Package handles keeps the address handles of an RDMA device, and resolves the neighbors that
// paths lead to.
//
// # Handles
//
// A datagram is sent through an address handle, which endpoints with the same path share. Creating
// one may need address resolution on the network. Unused handles therefore stay in the Cache for
// later use, up to a limit, because peers decide how many are created.
//
// # Resolution
//
// With RoCE the kernel resolves the neighbor before it creates an address handle or connects a
// queue pair. The call takes a second if the neighbor does not answer (ib_addr of
// drivers/infiniband/core/addr.c). For a destination that the application names, the caller waits
// for the resolution (Cache.Get). A destination that a peer names in a request could be any
// address, and a series of such requests would keep a worker from all other work. An endpoint for a
// peer's request is therefore made only if the path is known (Cache.Known), and the layer above has
// the path resolved before (Cache.Resolve). A goroutine waits for each resolution and ends with it;
// the number of such goroutines is bounded, and so is the number of resolutions that wait.
//
// A neighbor is known while there is a handle to it, and nothing since indicates that the neighbor
// stopped answering (Cache.Missed). Any goroutine may call the methods of a Cache. No handle is
// created with the lock held, so no goroutine waits for the neighbor of another one.
package handles
