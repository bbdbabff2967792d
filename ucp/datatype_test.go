package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucs"
)

// chunked is a generic datatype over a byte slice that packs at most step bytes a call.
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

// TestPayloadRefuses checks that buffers that describe no memory are refused.
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
		for dir, init := range map[string]func(*datatype.Payload) error{
			"send": func(p *datatype.Payload) error { return initBuffer(nil, p, &tc.b, true) },
			"recv": func(p *datatype.Payload) error { return initBuffer(nil, p, &tc.b, false) },
		} {
			if err := init(new(datatype.Payload)); !errors.Is(err, tc.want) {
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
	var p datatype.Payload
	if err := initBuffer(nil, &p, &b, true); err != nil {
		t.Fatal(err)
	}
	p.Finish()
	p.Finish()
	if c.finished != 1 {
		t.Errorf("finished %d times", c.finished)
	}
}

// TestPayloadNegativeSize: with a packed size below zero a send is refused, and a
// receive has no room.
func TestPayloadNegativeSize(t *testing.T) {
	c := negativeSize{new(chunked)}
	b := Generic(NewGeneric(c), nil, 1)
	var p datatype.Payload
	if err := initBuffer(nil, &p, &b, true); !errors.Is(err, ucs.ErrInvalidParam) || c.finished != 1 {
		t.Errorf("send: %v, finished %d times", err, c.finished)
	}
	if err := initBuffer(nil, &p, &b, false); err != nil || p.Length != 0 {
		t.Errorf("receive: %v, room for %d bytes", err, p.Length)
	}
	p.Finish()
}

type negativeSize struct{ *chunked }

func (n negativeSize) PackedSize() int                           { return -1 }
func (n negativeSize) StartPack(any, int) (PackState, error)     { return n, nil }
func (n negativeSize) StartUnpack(any, int) (UnpackState, error) { return n, nil }
