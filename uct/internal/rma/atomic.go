package rma

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Operations in software, one bit per uct.AtomicOp: what C UCX offers on
// transports of domain "cpu" (uct_self_iface_query, uct_mm_iface_query).
const (
	PostOps  = 1<<uct.AtomicAdd | 1<<uct.AtomicAnd | 1<<uct.AtomicOr | 1<<uct.AtomicXor
	FetchOps = PostOps | 1<<uct.AtomicSwap | 1<<uct.AtomicCSwap
)

// Apply32 does op on the 4 bytes of b, which must be naturally aligned, and
// returns the old value. Compare-and-swap is another matter: see package word.
func Apply32(b []byte, op uct.AtomicOp, v uint32) (old uint32, err error) {
	old, ok := word.Do32(b, word.Op(op), v)
	if !ok {
		return 0, ucs.ErrUnsupported
	}
	return old, nil
}

// Apply64 is Apply32 for 8 bytes.
func Apply64(b []byte, op uct.AtomicOp, v uint64) (old uint64, err error) {
	old, ok := word.Do64(b, word.Op(op), v)
	if !ok {
		return 0, ucs.ErrUnsupported
	}
	return old, nil
}
