package datatype

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/uct"
)

// chunked is a generic datatype over a byte slice that packs at most step bytes
// a call.
type chunked struct {
	mem      []byte
	step     int
	finished int
}

func (c *chunked) PackedSize() int { return len(c.mem) }
func (c *chunked) Finish()         { c.finished++ }
func (c *chunked) Pack(off int, dst []byte) int {
	return copy(dst[:min(len(dst), c.step)], c.mem[off:])
}
func (c *chunked) Unpack(off int, src []byte) error { copy(c.mem[off:], src); return nil }

// drawPayload draws a payload of some class and its contents as flat bytes; read returns what the
// payload's memory holds now.
func drawPayload(t *rapid.T) (p Payload, flat []byte, read func() []byte) {
	flat = rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
	mem := bytes.Clone(flat)
	switch rapid.SampledFrom([]Class{Contig, IOV, Generic}).Draw(t, "class") {
	case Contig:
		p.SetBytes(mem)
		return p, flat, func() []byte { return mem }
	case IOV:
		var list [][]byte
		for rest := mem; len(rest) > 0; {
			n := rapid.IntRange(0, min(40, len(rest))).Draw(t, "piece")
			if n == 0 && rapid.Bool().Draw(t, "nil piece") {
				list = append(list, nil)
			}
			list = append(list, rest[:n:n])
			rest = rest[n:]
		}
		if rapid.Bool().Draw(t, "empty last piece") {
			list = append(list, nil)
		}
		p.SetList(list)
		return p, flat, func() []byte { return bytes.Join(list, nil) }
	}
	c := &chunked{mem: mem, step: rapid.IntRange(1, 50).Draw(t, "step")}
	p.SetState(c, len(mem))
	return p, flat, func() []byte { return mem }
}

// drawRange draws a range within n bytes.
func drawRange(t *rapid.T, n int) (off, length int) {
	off = rapid.IntRange(0, n).Draw(t, "off")
	return off, rapid.IntRange(0, n-off).Draw(t, "length")
}

// TestPayloadPackModel packs payloads of all classes at any offsets, in any order, and compares
// with flat bytes.
func TestPayloadPackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, flat, _ := drawPayload(t)
		if p.Length != len(flat) {
			t.Fatalf("length %d, want %d", p.Length, len(flat))
		}
		list := make([]uct.IOV, rapid.IntRange(1, 6).Draw(t, "entries"))
		t.Repeat(map[string]func(*rapid.T){
			"pack": func(t *rapid.T) {
				off, n := drawRange(t, len(flat))
				dst := make([]byte, n)
				if got := p.PackAt(dst, off); got != n || !bytes.Equal(dst, flat[off:off+n]) {
					t.Fatalf("packAt(%d bytes, %d) = %d, %x, want %x", n, off, got, dst, flat[off:off+n])
				}
			},
			"pack past the end": func(t *rapid.T) {
				off, _ := drawRange(t, len(flat))
				dst := make([]byte, len(flat)+10)
				if got := p.PackAt(dst, off); got != len(flat)-off || !bytes.Equal(dst[:got], flat[off:]) {
					t.Fatalf("packAt(%d) = %d of %d", off, got, len(flat)-off)
				}
			},
			"gather": func(t *rapid.T) {
				if p.Class == Generic {
					t.Skip("generic data has no addresses")
				}
				off, limit := drawRange(t, len(flat))
				entries, n := p.Gather(list, off, limit)
				var got []byte
				for _, e := range list[:entries] {
					got = append(got, e.Data...)
				}
				if n != len(got) || n > limit || !bytes.Equal(got, flat[off:off+n]) {
					t.Fatalf("gather(%d, %d) = %d entries, %d bytes: %x", off, limit, entries, n, got)
				}
				if n < limit && entries < len(list) {
					t.Fatalf("gather(%d, %d) stopped at %d bytes with %d of %d entries", off, limit, n, entries, len(list))
				}
			},
		})
	})
}

// TestPayloadUnpackModel unpacks into payloads of all classes at any offsets, and compares with
// flat bytes.
func TestPayloadUnpackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, flat, read := drawPayload(t)
		t.Repeat(map[string]func(*rapid.T){
			"unpack": func(t *rapid.T) {
				off, n := drawRange(t, len(flat))
				src := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "src")
				copy(flat[off:], src)
				if err := p.UnpackAt(src, off); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				if got := read(); !bytes.Equal(got, flat) {
					t.Fatalf("memory is %x, want %x", got, flat)
				}
			},
		})
	})
}

// TestFinishOnce checks that the state of a payload is finished once, however often Finish is
// called, and that the payload no longer refers to its memory.
func TestFinishOnce(t *testing.T) {
	c := &chunked{mem: make([]byte, 4), step: 1}
	var p Payload
	p.SetState(c, 4)
	p.Finish()
	p.Finish()
	if c.finished != 1 {
		t.Errorf("finished %d times", c.finished)
	}
	p.SetBytes(c.mem)
	p.Finish()
	if p.Buf != nil {
		t.Error("the buffer is still there")
	}
	p.SetList([][]byte{c.mem})
	p.Finish()
	if p.List != nil || p.Class != Contig {
		t.Error("the list is still there")
	}
}

// stuck is a datatype that packs nothing, or more than it was asked for.
type stuck struct {
	*chunked
	n int
}

func (s stuck) Pack(int, []byte) int { return s.n }

// TestPackStops checks that packing ends if the datatype returns an impossible length.
func TestPackStops(t *testing.T) {
	for _, n := range []int{0, -1, 5} {
		var p Payload
		p.SetState(stuck{new(chunked), n}, 4)
		if got := p.PackAt(make([]byte, 4), 0); got != 0 {
			t.Errorf("Pack says %d: PackAt = %d", n, got)
		}
	}
}

// TestCopy compares Copy with copy for small lengths.
func TestCopy(t *testing.T) {
	for n := range 70 {
		src, dst := make([]byte, n), make([]byte, n)
		for i := range src {
			src[i] = byte(i + 1)
		}
		if Copy(dst, src); !bytes.Equal(dst, src) {
			t.Errorf("%d bytes: %x", n, dst)
		}
	}
}
