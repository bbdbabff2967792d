package cpu

// ToDevice comes between stores to memory that a device reads and the store that tells
// it of them. This processor keeps the order of stores to memory, and the compiler too.
func ToDevice() {}

// FromDevice comes between the load that finds something written by a device, which is
// atomic, and the loads of what it has written before. This processor keeps the order
// of loads from memory, and the compiler does not move any before an atomic one.
// rdma-core has an lfence here, which costs as much as all else that polling does, and
// UCX has none (src/uct/ib/mlx5/ib_mlx5.inl).
func FromDevice() {}
