package rma

import "github.com/ucx-go/ucx/uct"

// Operations in software, one bit per uct.AtomicOp: what C UCX offers on
// transports of domain "cpu" (uct_self_iface_query, uct_mm_iface_query).
const (
	PostOps  = 1<<uct.AtomicAdd | 1<<uct.AtomicAnd | 1<<uct.AtomicOr | 1<<uct.AtomicXor
	FetchOps = PostOps | 1<<uct.AtomicSwap | 1<<uct.AtomicCSwap
)
