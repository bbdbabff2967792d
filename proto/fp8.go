package proto

import (
	"math"
	"math/bits"
)

// fp8Range is a range of numbers packed into one byte (src/ucs/type/float8.h):
// the low nibble is the exponent, counted from 1 at min, the high nibble the
// mantissa. Both bounds are powers of two.
type fp8Range struct {
	min, max uint64
}

// The ranges of address v2 and of key distances (src/ucp/wireup/wireup.h).
var (
	fp8Latency   = fp8Range{1 << 4, 1 << 17}    // in nanoseconds
	fp8Overhead  = fp8Range{1, 1 << 12}         // in nanoseconds
	fp8Bandwidth = fp8Range{512 << 20, 4 << 40} // in bytes per second
)

const (
	fp8NaN       = 15 // exponent of NaN
	doubleBias   = 1023
	doubleMaxExp = 0x7ff
)

// pack returns v in packed form, truncated to four bits of mantissa. 0 stays 0, another number
// below the range becomes min, and a number of max or more becomes half of max, as in C.
func (r fp8Range) pack(v float64) uint8 {
	b := math.Float64bits(v)
	exp := int(b >> 52 & doubleMaxExp)
	mant := uint8(b >> 48 & 15)
	minExp, maxExp := bits.TrailingZeros64(r.min), bits.TrailingZeros64(r.max)
	switch {
	case exp == doubleMaxExp:
		return fp8NaN | mant<<4
	case exp > maxExp+doubleBias-1:
		return uint8(maxExp - minExp)
	case exp <= minExp+doubleBias-1:
		if v == 0 {
			return 0
		}
		return 1
	}
	return uint8(exp-(doubleBias-1)-minExp) | mant<<4
}

// packSeconds packs a time in seconds; the range is in nanoseconds. It rounds to 1/1024 ns, so that
// a value that was unpacked and converted to seconds packs into the same byte again.
func (r fp8Range) packSeconds(s float64) uint8 {
	const steps = 1 << 10
	return r.pack(math.Round(s*nsecPerSec*steps) / steps)
}

// unpack is the inverse of pack except for the truncation; exponent 15 gives NaN.
func (r fp8Range) unpack(b uint8) float64 {
	e, m := b&15, b>>4
	switch e {
	case 0:
		return 0
	case fp8NaN:
		return math.NaN()
	}
	return (1 + float64(m)/16) * float64(r.min) * float64(uint64(1)<<(e-1))
}

// round returns the value that a peer receives for v.
func (r fp8Range) round(v float64) float64 { return r.unpack(r.pack(v)) }

const nsecPerSec = 1e9
