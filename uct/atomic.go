package uct

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
)

// Atomic is an Endpoint with atomic operations on naturally aligned words of the peer
// (IfaceAtomicCPU, IfaceAtomicDevice; IfaceAttr.Atomic32 and Atomic64 list them). Unlisted
// operations return ucs.ErrUnsupported; embed NoAtomic to get that.
type Atomic interface {
	// Atomic32Post and Atomic64Post return no result.
	Atomic32Post(op AtomicOp, value uint32, raddr uint64, key *Rkey) error
	Atomic64Post(op AtomicOp, value uint64, raddr uint64, key *Rkey) error

	// The other operations store the previous value. Done means that it has been stored.
	Atomic32Fetch(op AtomicOp, value uint32, result *uint32, raddr uint64, key *Rkey, c *Completion) error
	Atomic64Fetch(op AtomicOp, value uint64, result *uint64, raddr uint64, key *Rkey, c *Completion) error
	AtomicCSwap32(compare, swap uint32, raddr uint64, key *Rkey, result *uint32, c *Completion) error
	AtomicCSwap64(compare, swap uint64, raddr uint64, key *Rkey, result *uint64, c *Completion) error
}

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

// Do32 does the operation on the 4 bytes of b, which must be naturally aligned, and returns
// the previous value. An unknown operation gives ucs.ErrUnsupported, and so does
// AtomicCSwap, which takes one operand more.
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

// AtomicOps are the atomic operations of one operand size, one bit per AtomicOp.
type AtomicOps struct {
	Post  uint32 // without result
	Fetch uint32 // with result
}
