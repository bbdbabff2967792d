// Package memory is the memory that an RDMA device reads and writes: registered regions with their
// keys, and pools of buffers that are registered in chunks.
//
// # Regions
//
// A caller registers memory that it sends from or that peers access (Space.Register), and gets a
// Region, which is the handle of uct.MemoryDomain. Deregistered regions are kept for reuse, because
// large messages register their memory only while they are in flight. A packed remote key consists
// of two keys (Space.AppendKey), in the format of C UCX. Memory of another device is registered as
// a dma-buf, if kernel and driver support that.
//
// # Pools
//
// Copied data lies in pools of an interface: SendPool for sent data, RecvPool for received data. A
// pool begins small, grows while traffic needs more, and does not shrink. All pools of the process
// together stop growing at half of the memory that the process may pin; the rest is for regions
// (budget.go). A pool that could not grow tries again ever less often.
package memory
