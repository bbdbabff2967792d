package ucp

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// chunked is a generic datatype over a byte slice that packs at most step bytes
// a call.
type chunked struct {
	mem      []byte
	step     int
	finished int
}

func (c *chunked) StartPack(any, int) (PackState, error)     { return c, nil }
func (c *chunked) StartUnpack(any, int) (UnpackState, error) { return c, nil }
func (c *chunked) PackedSize() int                           { return len(c.mem) }
func (c *chunked) Finish()                                   { c.finished++ }
func (c *chunked) Pack(off int, dst []byte) int {
	return copy(dst[:min(len(dst), c.step)], c.mem[off:])
}
func (c *chunked) Unpack(off int, src []byte) error { copy(c.mem[off:], src); return nil }

// drawBuffer draws memory of some class and the flat bytes it stands for; read
// returns what it holds now.
func drawBuffer(t *rapid.T) (b Buffer, flat []byte, read func() []byte) {
	flat = rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
	mem := bytes.Clone(flat)
	switch rapid.SampledFrom([]DatatypeClass{DatatypeContig, DatatypeIOV, DatatypeGeneric}).Draw(t, "class") {
	case DatatypeContig:
		return Bytes(mem), flat, func() []byte { return mem }
	case DatatypeIOV:
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
		return IOV(list...), flat, func() []byte { return bytes.Join(list, nil) }
	}
	c := &chunked{mem: mem, step: rapid.IntRange(1, 50).Draw(t, "step")}
	return Generic(NewGeneric(c), nil, 1), flat, func() []byte { return mem }
}

// drawRange draws a part of n bytes.
func drawRange(t *rapid.T, n int) (off, length int) {
	off = rapid.IntRange(0, n).Draw(t, "off")
	return off, rapid.IntRange(0, n-off).Draw(t, "length")
}

// TestPayloadPackModel reads any memory at any offsets, in any order, and
// compares with flat bytes.
func TestPayloadPackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, flat, _ := drawBuffer(t)
		var p payload
		if err := p.initSend(nil, &b); err != nil {
			t.Fatal(err)
		}
		if p.length != len(flat) {
			t.Fatalf("length %d, want %d", p.length, len(flat))
		}
		list := make([]uct.IOV, rapid.IntRange(1, 6).Draw(t, "entries"))
		t.Repeat(map[string]func(*rapid.T){
			"pack": func(t *rapid.T) {
				off, n := drawRange(t, len(flat))
				dst := make([]byte, n)
				if got := p.packAt(dst, off); got != n || !bytes.Equal(dst, flat[off:off+n]) {
					t.Fatalf("packAt(%d bytes, %d) = %d, %x, want %x", n, off, got, dst, flat[off:off+n])
				}
			},
			"pack past the end": func(t *rapid.T) {
				off, _ := drawRange(t, len(flat))
				dst := make([]byte, len(flat)+10)
				if got := p.packAt(dst, off); got != len(flat)-off || !bytes.Equal(dst[:got], flat[off:]) {
					t.Fatalf("packAt(%d) = %d of %d", off, got, len(flat)-off)
				}
			},
			"gather": func(t *rapid.T) {
				if p.class == DatatypeGeneric {
					t.Skip("generic data has no addresses")
				}
				off, limit := drawRange(t, len(flat))
				entries, n := p.gather(list, off, limit)
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

// TestPayloadUnpackModel writes any memory at any offsets.
func TestPayloadUnpackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, flat, read := drawBuffer(t)
		var p payload
		if err := p.initRecv(nil, &b); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"unpack": func(t *rapid.T) {
				off, n := drawRange(t, len(flat))
				src := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "src")
				copy(flat[off:], src)
				if err := p.unpackAt(src, off); err != nil {
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

// TestPayloadRefuses lists buffers that describe no memory.
func TestPayloadRefuses(t *testing.T) {
	start := errors.New("cannot start")
	for _, tc := range []struct {
		name string
		b    Buffer
		want error
	}{
		{"elements of size 0", Elements(make([]byte, 8), 0), ucs.ErrInvalidParam},
		{"elements of negative size", Elements(make([]byte, 8), -1), ucs.ErrInvalidParam},
		{"a part of an element", Elements(make([]byte, 9), 4), ucs.ErrInvalidParam},
		{"generic without type", Generic(nil, nil, 1), ucs.ErrInvalidParam},
		{"negative count", Generic(NewGeneric(&chunked{}), nil, -1), ucs.ErrInvalidParam},
		{"a start that fails", Generic(NewGeneric(failingStart{start}), nil, 1), start},
	} {
		for dir, init := range map[string]func(*payload) error{
			"send": func(p *payload) error { return p.initSend(nil, &tc.b) },
			"recv": func(p *payload) error { return p.initRecv(nil, &tc.b) },
		} {
			if err := init(new(payload)); !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: %v, want %v", tc.name, dir, err, tc.want)
			}
		}
	}
}

// failingStart is a datatype whose states cannot be started.
type failingStart struct{ err error }

func (f failingStart) StartPack(any, int) (PackState, error)     { return nil, f.err }
func (f failingStart) StartUnpack(any, int) (UnpackState, error) { return nil, f.err }

// TestPayloadFinishOnce: however often a payload is finished, its state is
// finished once.
func TestPayloadFinishOnce(t *testing.T) {
	c := &chunked{mem: make([]byte, 4), step: 1}
	b := Generic(NewGeneric(c), nil, 1)
	var p payload
	if err := p.initSend(nil, &b); err != nil {
		t.Fatal(err)
	}
	p.finish()
	p.finish()
	if c.finished != 1 {
		t.Errorf("finished %d times", c.finished)
	}
}

// TestPayloadNegativeSize: a packed size below zero refuses a send, and is a
// receive without room.
func TestPayloadNegativeSize(t *testing.T) {
	c := negativeSize{new(chunked)}
	b := Generic(NewGeneric(c), nil, 1)
	var p payload
	if err := p.initSend(nil, &b); !errors.Is(err, ucs.ErrInvalidParam) || c.finished != 1 {
		t.Errorf("send: %v, finished %d times", err, c.finished)
	}
	if err := p.initRecv(nil, &b); err != nil || p.length != 0 {
		t.Errorf("receive: %v, room for %d bytes", err, p.length)
	}
	p.finish()
}

type negativeSize struct{ *chunked }

func (n negativeSize) PackedSize() int                           { return -1 }
func (n negativeSize) StartPack(any, int) (PackState, error)     { return n, nil }
func (n negativeSize) StartUnpack(any, int) (UnpackState, error) { return n, nil }
