package ucttest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// Fill fills b with a pattern that depends on seed and position, so that a comparison detects
// shifted, swapped or stale bytes. It returns b.
func Fill(b []byte, seed uint64) []byte {
	x := seed*0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d
	var word [8]byte
	for rest := b; len(rest) > 0; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(word[:], x)
		rest = rest[copy(rest, word[:]):]
	}
	return b
}

// Pattern returns n bytes of the pattern of seed.
func Pattern(n int, seed uint64) []byte { return Fill(make([]byte, n), seed) }

// SameBytes fails the test at the first byte in which got differs from want.
func SameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#02x, want %#02x", what, i, len(got), got[i], want[i])
		}
	}
}

// maxSize bounds the messages of the suite if a transport has no lower limit.
const maxSize = 1 << 20

// Sizes returns lengths from lo to hi that are worth testing: both ends, the neighbours of
// powers of two, and the middles between powers of two. A large hi is clipped to maxSize.
func Sizes(lo, hi int) []int {
	hi = min(hi, max(maxSize, lo))
	list := []int{lo, lo + 1, hi - 1, hi}
	for p := 1; p <= hi && p > 0; p *= 2 {
		list = append(list, p-1, p, p+1, p+p/2)
	}
	list = slices.DeleteFunc(list, func(n int) bool { return n < lo || n > hi })
	slices.Sort(list)
	return slices.Compact(list)
}

// Unhex decodes hexadecimal digits. Blanks between bytes are ignored.
func Unhex(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
