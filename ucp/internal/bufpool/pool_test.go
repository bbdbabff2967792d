package bufpool

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestPoolModel checks the counters of the pool, and that no buffer is handed out twice.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Pool
		var out [][]byte
		held := make(map[*byte]bool)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				n := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(4000, 9000)).Draw(t, "n")
				b := p.Get(n)
				if len(b) != 0 || cap(b) < n {
					t.Fatalf("Get(%d) has length %d and capacity %d", n, len(b), cap(b))
				}
				if held[unsafe.SliceData(b)] {
					t.Fatalf("Get(%d) gave memory that is in use", n)
				}
				held[unsafe.SliceData(b)] = true
				out = append(out, b)
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing handed out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "target")
				// Callers return buffers with any length.
				p.Put(out[i][:cap(out[i])/2])
				delete(held, unsafe.SliceData(out[i]))
				out = append(out[:i:i], out[i+1:]...)
			},
			"": func(t *rapid.T) {
				used, idle := 0, 0
				for _, b := range out {
					used += cap(b)
				}
				for _, l := range p.free {
					for _, b := range l {
						idle += cap(b)
					}
				}
				if p.used != used || p.idle != idle {
					t.Fatalf("used %d, idle %d, want %d, %d", p.used, p.idle, used, idle)
				}
			},
		})
	})
}

// TestPoolBounds checks that the pool keeps no huge buffers, and no more bytes than its limit.
func TestPoolBounds(t *testing.T) {
	var p Pool
	p.Put(p.Get(maxIdleBytes + 1))
	if p.idle != 0 || p.used != 0 {
		t.Errorf("after a huge buffer: used %d, idle %d", p.used, p.idle)
	}
	const size = 8 << 20
	var out [][]byte
	for range maxIdleBytes/size + 2 {
		out = append(out, p.Get(size))
	}
	for _, b := range out {
		p.Put(b)
	}
	if p.idle > maxIdleBytes || p.used != 0 {
		t.Errorf("idle %d bytes, used %d", p.idle, p.used)
	}
}

// TestPoolShrinks checks that the pool keeps little after a peak.
func TestPoolShrinks(t *testing.T) {
	var p Pool
	for _, size := range []int{100, 5000, 1 << 20} {
		var out [][]byte
		for range (32 << 20) / size {
			out = append(out, p.Get(size))
		}
		for i, b := range out {
			p.Put(b)
			if p.idle > max(p.used, minIdleBytes) {
				t.Fatalf("%d bytes each, %d given back: %d kept, %d in use", size, i+1, p.idle, p.used)
			}
		}
		if p.used != 0 || p.idle == 0 {
			t.Errorf("%d bytes each: %d kept, %d in use", size, p.idle, p.used)
		}
	}
}

// TestClass checks that the buffers of a class are large enough for a size, and less than twice as
// large.
func TestClass(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 127, 128, 129, 4096, 4097, 1 << 20, 1<<20 + 1} {
		size := 1 << (class(n) + minBits)
		if size < n || size > 64 && size >= 2*n {
			t.Errorf("%d bytes are given %d", n, size)
		}
	}
}
