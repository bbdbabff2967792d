package rma

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestApply: each operation is the one of package word, whose tests say what that
// does, and there are no others.
func TestApply(t *testing.T) {
	const old, v = 0x1200ff00ff, 0x3400f0f00f
	for op, want := range map[uct.AtomicOp]uint64{
		uct.AtomicAdd:  old + v,
		uct.AtomicAnd:  old & v,
		uct.AtomicOr:   old | v,
		uct.AtomicXor:  old ^ v,
		uct.AtomicSwap: v,
	} {
		b := binary.NativeEndian.AppendUint64(nil, old)
		if was, err := Apply64(b, op, v); err != nil || was != old || binary.NativeEndian.Uint64(b) != want {
			t.Errorf("operation %d, 64 bits: %x, was %#x, error %v, want %#x, was %#x", op, b, was, err, want, uint64(old))
		}
		b = binary.NativeEndian.AppendUint32(nil, uint32(old&0xffffffff))
		if was, err := Apply32(b, op, uint32(v&0xffffffff)); err != nil || was != uint32(old&0xffffffff) || binary.NativeEndian.Uint32(b) != uint32(want) {
			t.Errorf("operation %d, 32 bits: %x, was %#x, error %v, want %#x", op, b, was, err, uint32(want))
		}
	}
	for _, op := range []uct.AtomicOp{uct.AtomicCSwap, 6, 255} {
		b := make([]byte, 8)
		if _, err := Apply32(b, op, 1); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("operation %d, 32 bits: %v", op, err)
		}
		if _, err := Apply64(b, op, 1); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("operation %d, 64 bits: %v", op, err)
		}
	}
}
