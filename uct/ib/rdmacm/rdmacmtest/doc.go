// Package rdmacmtest simulates an RDMA connection manager without a kernel. It answers the commands
// of package ucm by the same table, as rdma_ucm does for a machine with one device, and carries
// handshakes between IDs within this process. The device is that of package verbstest, so IDs that
// have completed a handshake here can connect queue pairs there. It does not depend on package
// rdmacm.
//
// A peer's answer takes no time: it is made in the call that asks for it, and its event is queued
// when the call returns.
package rdmacmtest
