package kit

import "github.com/ucx-go/ucx/uct"

// Atomic operations in software, one bit per uct.AtomicOp. C UCX offers the same operations on
// transports with CPU atomics (uct_self_iface_query, uct_mm_iface_query).
const (
	AtomicPostOps  = 1<<uct.AtomicAdd | 1<<uct.AtomicAnd | 1<<uct.AtomicOr | 1<<uct.AtomicXor
	AtomicFetchOps = AtomicPostOps | 1<<uct.AtomicSwap | 1<<uct.AtomicCSwap
)
