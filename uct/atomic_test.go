package uct

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestAtomicDo: each operation is that of package word, which has its own tests, and other
// operations are refused.
func TestAtomicDo(t *testing.T) {
	const old, v = 0x1200ff00ff, 0x3400f0f00f
	for op, want := range map[AtomicOp]uint64{
		AtomicAdd:  old + v,
		AtomicAnd:  old & v,
		AtomicOr:   old | v,
		AtomicXor:  old ^ v,
		AtomicSwap: v,
	} {
		b := binary.NativeEndian.AppendUint64(nil, old)
		if was, err := op.Do64(b, v); err != nil || was != old || binary.NativeEndian.Uint64(b) != want {
			t.Errorf("%v, 64 bits: %x, was %#x, %v, want %#x, was %#x", op, b, was, err, want, uint64(old))
		}
		b = binary.NativeEndian.AppendUint32(nil, uint32(old&0xffffffff))
		if was, err := op.Do32(b, uint32(v&0xffffffff)); err != nil || was != uint32(old&0xffffffff) || binary.NativeEndian.Uint32(b) != uint32(want) {
			t.Errorf("%v, 32 bits: %x, was %#x, %v, want %#x", op, b, was, err, uint32(want))
		}
	}
	for _, op := range []AtomicOp{AtomicCSwap, 6, 255} {
		b := make([]byte, 8)
		if _, err := op.Do32(b, 1); err != ucs.ErrUnsupported {
			t.Errorf("%v, 32 bits: %v", op, err)
		}
		if _, err := op.Do64(b, 1); err != ucs.ErrUnsupported {
			t.Errorf("%v, 64 bits: %v", op, err)
		}
	}
}
