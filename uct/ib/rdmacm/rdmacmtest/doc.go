// Package rdmacmtest is an RDMA connection manager without a kernel: it answers the
// commands of package ucm by the same table, as rdma_ucm does for a machine with one
// device, and carries handshakes between IDs within this process. The device is that
// of package verbstest, so that what has shaken hands here can connect queue pairs
// there. It knows nothing of package rdmacm.
//
// What a peer would answer after a while happens in the call that asks for it, and
// the event is there when it returns.
package rdmacmtest
