package word_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/internal/word"
)

func TestOperations(t *testing.T) {
	for _, c := range []struct {
		name     string
		op32     func([]byte, uint32) uint32
		op64     func([]byte, uint64) uint64
		old, v   uint64
		w32, w64 uint64
	}{
		{"add", word.Add32, word.Add64, 5, 7, 12, 12},
		{"add wraps 32", word.Add32, word.Add64, 0xffffffff, 1, 0, 0x100000000},
		{"add wraps 64", word.Add32, word.Add64, ^uint64(0), 2, 1, 1},
		{"and", word.And32, word.And64, 0xff00ff, 0x0ff00f, 0x0f000f, 0x0f000f},
		{"or", word.Or32, word.Or64, 0xf0, 0x0f, 0xff, 0xff},
		{"xor", word.Xor32, word.Xor64, 0xff, 0x0f, 0xf0, 0xf0},
		{"swap", word.Swap32, word.Swap64, 1, 1 << 40, 0, 1 << 40},
	} {
		b := make([]byte, 24)
		binary.NativeEndian.PutUint64(b[8:], c.old)
		if got, got32 := word.Load64(b[8:16]), word.Load32(b[8:12]); got != c.old || got32 != binary.NativeEndian.Uint32(b[8:]) {
			t.Errorf("%#x is read as %#x and %#x", c.old, got, got32)
		}
		old := c.op64(b[8:16], c.v)
		if got := binary.NativeEndian.Uint64(b[8:]); old != c.old || got != c.w64 {
			t.Errorf("%s, 64 bits: %#x, was %#x", c.name, got, old)
		}
		clear(b)
		binary.NativeEndian.PutUint32(b[12:], uint32(c.old))
		old32 := c.op32(b[12:16], uint32(c.v))
		if got := binary.NativeEndian.Uint32(b[12:]); old32 != uint32(c.old) || got != uint32(c.w32) {
			t.Errorf("%s, 32 bits: %#x, was %#x", c.name, got, old32)
		}
		binary.NativeEndian.PutUint32(b[12:], 0)
		if string(b) != string(make([]byte, 24)) {
			t.Errorf("%s: neighbors touched: %x", c.name, b)
		}
	}
}

// TestConcurrent: goroutines that update one word lose no update, with each operation that could
// lose one.
func TestConcurrent(t *testing.T) {
	const goroutines, rounds = 4, 1000
	b := make([]byte, 32)
	add32, swap32, xor32 := b[:4], b[4:8], b[8:12]
	add64, swap64 := b[16:24], b[24:]
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range rounds {
				word.Add32(add32, 1)
				word.Add64(add64, 1)
				word.Xor32(xor32, 1<<g)
				for {
					old := word.Or32(swap32, 0)
					if word.CompareSwap32(swap32, old, old+1) == old {
						break
					}
				}
				for {
					old := word.Or64(swap64, 0)
					if word.CompareSwap64(swap64, old, old+1) == old {
						break
					}
				}
			}
		}()
	}
	wg.Wait()
	for name, n := range map[string]uint64{
		"32 bits, add":          uint64(binary.NativeEndian.Uint32(add32)),
		"32 bits, compare-swap": uint64(binary.NativeEndian.Uint32(swap32)),
		"64 bits, add":          binary.NativeEndian.Uint64(add64),
		"64 bits, compare-swap": binary.NativeEndian.Uint64(swap64),
	} {
		if n != goroutines*rounds {
			t.Errorf("%s: %d, want %d", name, n, goroutines*rounds)
		}
	}
	if n := binary.NativeEndian.Uint32(xor32); n != 0 {
		t.Errorf("an even number of toggles left %#x", n)
	}
	if old := word.CompareSwap64(add64, 1, 2); old == 1 {
		t.Error("swapped")
	}
}

// TestBytes: the bytes of a word share its memory and its address.
func TestBytes(t *testing.T) {
	type id uint32
	a, b := id(0x01020304), uint64(5)
	if got := word.Bytes(&a); len(got) != 4 || binary.NativeEndian.Uint32(got) != 0x01020304 {
		t.Errorf("the bytes of a word of 32 bits are %x", got)
	}
	got := word.Bytes(&b)
	binary.NativeEndian.PutUint64(got, 6)
	if len(got) != 8 || b != 6 || word.Size[uint64]() != 8 || word.Size[id]() != 4 {
		t.Errorf("the bytes of a word of 64 bits are %x, and the word %d", got, b)
	}
	if word.Address(got[3:]) != word.Address(got)+3 || word.Address(nil) != 0 {
		t.Error("addresses are not in order")
	}
}
