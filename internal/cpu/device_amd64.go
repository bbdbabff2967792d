package cpu

// ToDevice is the barrier between stores to memory that a device reads and the store that notifies
// the device. It is empty: neither this processor nor the compiler reorders stores to memory.
func ToDevice() {}

// FromDevice is the barrier between the atomic load that finds something written by a device and
// the loads of data that the device has written before. It is empty: this processor keeps the order
// of loads from memory, and the compiler moves no load before an atomic one. rdma-core has an
// lfence here, which costs as much as the rest of a poll; C UCX has none
// (src/uct/ib/mlx5/ib_mlx5.inl).
func FromDevice() {}
