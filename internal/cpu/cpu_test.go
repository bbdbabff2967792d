package cpu

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/internal/word"
)

// TestCopy copies no, one and several pieces, and checks the bytes around the target.
func TestCopy(t *testing.T) {
	src := make([]byte, 3*Piece)
	for i := range src {
		src[i] = byte(i*7 + i>>8 + i>>16)
	}
	for _, n := range []int{0, 1, 15, 4096, Piece - 1, Piece, Piece + 1, 2*Piece + 5} {
		for _, off := range []int{0, 1, 7, 63} {
			for _, room := range []int{n - 1, n, n + 3} {
				if room < 0 {
					continue
				}
				dst := bytes.Repeat([]byte{0xee}, room+128)
				want := bytes.Clone(dst)
				k := min(n, room)
				copy(want[64:64+k], src[off:])
				if got := Copy(dst[64:64+room], src[off:off+n]); got != k {
					t.Fatalf("copying %d bytes to %d returned %d", n, room, got)
				}
				if !bytes.Equal(dst, want) {
					t.Fatalf("copying %d bytes from offset %d to %d: wrong bytes", n, off, room)
				}
			}
		}
	}
}

// TestPrefetch: prefetching has no visible effect, and must not fault on any address.
func TestPrefetch(t *testing.T) {
	b := make([]byte, 1)
	for _, p := range []uintptr{uintptr(word.Address(b)), 0, ^uintptr(0)} {
		PrefetchWrite(p)
	}
}

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 8<<10), make([]byte, 8<<10)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		Copy(dst, src)
	}
}

// TestCounter: a counter, if there is one, advances.
func TestCounter(t *testing.T) {
	start := Counter()
	for Counter()-start < Moment() {
	}
}

// TestDevice: values arrive in device memory unchanged. The effect of barriers cannot be observed.
func TestDevice(t *testing.T) {
	var src, dst [8]uint64
	for i := range src {
		src[i] = uint64(i+1) * 0x0101010101010101
	}
	ToDevice()
	FlushWrites()
	CopyDevice64(&dst, &src)
	FlushWrites()
	if dst != src {
		t.Errorf("%x copied as %x", src, dst)
	}
	StoreDevice64(&dst[3], 0x123456789abcdef0)
	FromDevice()
	if src[3] = 0x123456789abcdef0; dst != src {
		t.Errorf("%x after a store, want %x", dst, src)
	}
}

func BenchmarkBarriers(b *testing.B) {
	var p uint64
	for name, f := range map[string]func(){"flush": FlushWrites, "from": FromDevice, "store": func() { StoreDevice64(&p, 1) }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
