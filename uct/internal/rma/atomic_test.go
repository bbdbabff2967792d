package rma

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/word"
	"github.com/ucx-go/ucx/uct"
)

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name     string
		op       uct.AtomicOp
		old, v   uint64
		w32, w64 uint64
	}{
		{"add", uct.AtomicAdd, 5, 7, 12, 12},
		{"add wraps 32", uct.AtomicAdd, 0xffffffff, 1, 0, 0x100000000},
		{"add wraps 64", uct.AtomicAdd, ^uint64(0), 2, 1, 1},
		{"and", uct.AtomicAnd, 0xff00ff, 0x0ff00f, 0x0f000f, 0x0f000f},
		{"or", uct.AtomicOr, 0xf0, 0x0f, 0xff, 0xff},
		{"xor", uct.AtomicXor, 0xff, 0x0f, 0xf0, 0xf0},
		{"swap", uct.AtomicSwap, 1, 1 << 40, 0, 1 << 40},
	} {
		b := make([]byte, 24)
		binary.LittleEndian.PutUint64(b[8:], c.old)
		old, err := Apply64(b[8:16], c.op, c.v)
		if got := binary.LittleEndian.Uint64(b[8:]); err != nil || old != c.old || got != c.w64 {
			t.Errorf("%s, 64 bits: %#x, was %#x, error %v, want %#x, was %#x", c.name, got, old, err, c.w64, c.old)
		}
		clear(b)
		binary.LittleEndian.PutUint32(b[12:], uint32(c.old))
		old32, err := Apply32(b[12:16], c.op, uint32(c.v))
		if got := binary.LittleEndian.Uint32(b[12:]); err != nil || old32 != uint32(c.old) || got != uint32(c.w32) {
			t.Errorf("%s, 32 bits: %#x, was %#x, error %v, want %#x, was %#x", c.name, got, old32, err, c.w32, uint32(c.old))
		}
		binary.LittleEndian.PutUint32(b[12:], 0)
		if string(b) != string(make([]byte, 24)) {
			t.Errorf("%s: neighbours touched: %x", c.name, b)
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

// Nothing is lost when goroutines update one word.
func TestAtomicity(t *testing.T) {
	const goroutines, rounds = 4, 1000
	b := make([]byte, 16)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range rounds {
				Apply32(b[4:8], uct.AtomicAdd, 1)
				Apply64(b[8:], uct.AtomicAdd, 1)
				Apply32(b[:4], uct.AtomicXor, 1<<g)
			}
			for {
				old, _ := Apply64(b[8:], uct.AtomicAdd, 0)
				if word.CompareSwap64(b[8:], old, old+1) == old {
					return
				}
			}
		}()
	}
	wg.Wait()
	if n := binary.LittleEndian.Uint32(b[4:]); n != goroutines*rounds {
		t.Errorf("32 bits: %d, want %d", n, goroutines*rounds)
	}
	if n := binary.LittleEndian.Uint64(b[8:]); n != goroutines*rounds+goroutines {
		t.Errorf("64 bits: %d, want %d", n, goroutines*rounds+goroutines)
	}
	if n := binary.LittleEndian.Uint32(b); n != 0 {
		t.Errorf("an even number of toggles left %#x", n)
	}
}
