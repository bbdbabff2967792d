package uct

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
)

// AtomicOp is an atomic operation (uct_atomic_op_t), with the numbers of C's transports and
// messages. The numbers in UCP's API differ.
type AtomicOp uint8

// Atomic operations.
const (
	AtomicAdd AtomicOp = iota
	AtomicAnd
	AtomicOr
	AtomicXor
	AtomicSwap
	AtomicCSwap // compare and swap
)

var atomicNames = [...]string{"add", "and", "or", "xor", "swap", "cswap"}

// String returns the operation's name.
func (o AtomicOp) String() string {
	if int(o) < len(atomicNames) {
		return atomicNames[o]
	}
	return fmt.Sprintf("atomic op %d", uint8(o))
}

// Do32 does the operation on the 4 bytes of b, which must be naturally aligned, and returns the
// previous value. AtomicCSwap, which needs a second operand (CompareSwap32), and unknown operations
// return ucs.ErrUnsupported.
func (o AtomicOp) Do32(b []byte, v uint32) (uint32, error) {
	switch o {
	case AtomicAdd:
		return word.Add32(b, v), nil
	case AtomicAnd:
		return word.And32(b, v), nil
	case AtomicOr:
		return word.Or32(b, v), nil
	case AtomicXor:
		return word.Xor32(b, v), nil
	case AtomicSwap:
		return word.Swap32(b, v), nil
	}
	return 0, ucs.ErrUnsupported
}

// Do64 is like Do32, for 8 bytes.
func (o AtomicOp) Do64(b []byte, v uint64) (uint64, error) {
	switch o {
	case AtomicAdd:
		return word.Add64(b, v), nil
	case AtomicAnd:
		return word.And64(b, v), nil
	case AtomicOr:
		return word.Or64(b, v), nil
	case AtomicXor:
		return word.Xor64(b, v), nil
	case AtomicSwap:
		return word.Swap64(b, v), nil
	}
	return 0, ucs.ErrUnsupported
}

// CompareSwap32 stores swap in the 4 bytes of b, which must be naturally aligned, if their value
// is compare. It returns the previous value.
func CompareSwap32(b []byte, compare, swap uint32) uint32 {
	return word.CompareSwap32(b, compare, swap)
}

// CompareSwap64 is like CompareSwap32, for 8 bytes.
func CompareSwap64(b []byte, compare, swap uint64) uint64 {
	return word.CompareSwap64(b, compare, swap)
}

// AtomicOps are the atomic operations of one operand size, one bit per AtomicOp.
type AtomicOps struct {
	Post  uint32 // without result
	Fetch uint32 // with result
}
