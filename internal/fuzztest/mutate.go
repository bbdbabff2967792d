package fuzztest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// mutator makes inputs from those of a corpus.
type mutator struct {
	rng *rand.Rand
}

// longest is the largest size of bytes that changes make, unless a seed is longer.
const longest = 4 << 10

// numbers are values at which parsers go wrong.
var numbers = []uint64{
	0, 1, 2, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 255, 256, 1023, 1024, 4095, 4096, 32767, 32768, 65535, 65536,
	1<<24 - 1, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<48 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1,
}

// input returns an input made from one of the corpus.
func (m *mutator) input(corpus [][]any) []any {
	from := corpus[m.rng.IntN(len(corpus))]
	in := make([]any, len(from))
	copy(in, from)
	for changes := 1 + m.rng.IntN(3); changes > 0; changes-- {
		k := m.rng.IntN(len(in))
		other := corpus[m.rng.IntN(len(corpus))][k]
		in[k] = m.change(in[k], other)
	}
	return in
}

// change returns a value like v. other is the same argument of another input.
func (m *mutator) change(v, other any) any {
	switch v := v.(type) {
	case []byte:
		return m.bytes(v, other.([]byte))
	case string:
		return string(m.bytes([]byte(v), []byte(other.(string))))
	case bool:
		return !v
	case byte:
		return byte(m.number(uint64(v)))
	case uint16:
		return uint16(m.number(uint64(v)))
	case uint32:
		return uint32(m.number(uint64(v)))
	case uint64:
		return m.number(v)
	case uint:
		return uint(m.number(uint64(v)))
	case int8:
		return int8(m.number(uint64(v)))
	case int16:
		return int16(m.number(uint64(v)))
	case int32:
		return int32(m.number(uint64(v)))
	case int64:
		return int64(m.number(uint64(v)))
	case int:
		return int(m.number(uint64(v)))
	}
	panic(fmt.Sprintf("fuzztest: argument of type %T", v))
}

// number returns a number like x.
func (m *mutator) number(x uint64) uint64 {
	switch m.rng.IntN(5) {
	case 0:
		return x ^ 1<<m.rng.IntN(64)
	case 1:
		return x + uint64(m.rng.IntN(33)) - 16
	case 2:
		return m.rng.Uint64() >> m.rng.IntN(64)
	}
	return numbers[m.rng.IntN(len(numbers))]
}

// bytes returns a changed copy of b.
func (m *mutator) bytes(b, other []byte) []byte {
	b = append(make([]byte, 0, len(b)+64), b...)
	if len(b) == 0 {
		return append(b, other[:m.rng.IntN(len(other)+1)]...)
	}
	at := m.rng.IntN(len(b))
	n := 1 + m.rng.IntN(min(len(b)-at, 1<<m.rng.IntN(7)))
	switch m.rng.IntN(9) {
	case 0:
		b[at] ^= 1 << m.rng.IntN(8)
	case 1:
		b[at] = byte(numbers[m.rng.IntN(len(numbers))])
	case 2:
		m.word(b[at:])
	case 3: // removes a piece
		b = append(b[:at], b[at+n:]...)
	case 4: // doubles a piece
		if len(b)+n <= longest {
			b = append(b[:at+n:at+n], b[at:]...)
		}
	case 5: // inserts random bytes
		if len(b)+n <= longest {
			tail := append([]byte(nil), b[at:]...)
			for b = b[:at]; n > 0; n-- {
				b = append(b, byte(m.rng.Uint32()))
			}
			b = append(b, tail...)
		}
	case 6:
		b = b[:at]
	case 7: // copies a piece over another
		copy(b[m.rng.IntN(len(b)):], b[at:at+n])
	case 8: // goes on as another input
		from := m.rng.IntN(len(other) + 1)
		b = append(b[:at], other[from:]...)
	}
	return b
}

// word replaces the number at the beginning of b, of 2, 4 or 8 bytes in either order.
func (m *mutator) word(b []byte) {
	var order binary.ByteOrder = binary.LittleEndian
	if m.rng.IntN(4) == 0 {
		order = binary.BigEndian
	}
	switch size := 2 << m.rng.IntN(3); {
	case size > len(b):
	case size == 2:
		order.PutUint16(b, uint16(m.number(uint64(order.Uint16(b)))))
	case size == 4:
		order.PutUint32(b, uint32(m.number(uint64(order.Uint32(b)))))
	default:
		order.PutUint64(b, m.number(order.Uint64(b)))
	}
}
