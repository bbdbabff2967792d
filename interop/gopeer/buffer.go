package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

const (
	guard     = 64   // bytes around each piece that nothing may write
	filler    = 0xa5 // the initial contents of guards and receive buffers
	maxPieces = 16
	maxSize   = 1 << 30
)

// buffer is a message in memory: one piece or several, with guards around each.
type buffer struct {
	layout  string
	storage []byte
	pieces  [][]byte
	memory  *ucp.Memory // the allocation that holds storage, if the library made it
}

// newBuffer makes a buffer: "contig" and "generic" are one piece; "iovN" is N pieces, of which the
// first is empty and the last takes the remainder.
func newBuffer(layout string, size int) (*buffer, error) {
	if size < 0 || size > maxSize {
		return nil, fmt.Errorf("bad size: %d", size)
	}
	lengths := []int{size}
	if count, isIOV := strings.CutPrefix(layout, "iov"); isIOV {
		n, err := strconv.Atoi(count)
		if err != nil || n < 2 || n > maxPieces {
			return nil, fmt.Errorf("bad layout: %s", layout)
		}
		lengths = make([]int, n)
		for i := 1; i < n; i++ {
			lengths[i] = size / (n - 1)
		}
		lengths[n-1] += size % (n - 1)
	} else if layout != "contig" && layout != "generic" {
		return nil, fmt.Errorf("bad layout: %s", layout)
	}

	b := &buffer{layout: layout}
	b.place(make([]byte, size+(len(lengths)+1)*guard), lengths)
	return b, nil
}

// newBuffer makes a buffer as the function newBuffer does or, if layout is "new", as one piece in
// memory that the library allocates.
func (s *server) newBuffer(layout string, size int) (*buffer, error) {
	if layout != "new" {
		return newBuffer(layout, size)
	}
	m, err := s.allocate(size)
	if err != nil {
		return nil, err
	}
	m.buffer.memory = m.Memory
	return m.buffer, nil
}

// release frees the storage.
func (b *buffer) release() error {
	if b == nil || b.memory == nil {
		return nil
	}
	return b.memory.Close()
}

// place fills storage with filler and makes pieces of the given lengths in it the buffer.
func (b *buffer) place(storage []byte, lengths []int) {
	b.storage = storage
	for i := range storage {
		storage[i] = filler
	}
	b.pieces = b.pieces[:0]
	next := guard
	for _, n := range lengths {
		b.pieces = append(b.pieces, b.storage[next:next+n:next+n])
		next += n + guard
	}
}

// bufferIn returns a buffer of one piece in existing memory, which includes the guards.
func bufferIn(storage []byte) *buffer {
	b := &buffer{layout: "contig"}
	b.place(storage, []int{len(storage) - 2*guard})
	return b
}

// argument returns the buffer in the form that the calls of ucp accept.
func (b *buffer) argument(generic *ucp.GenericType) ([]byte, *ucp.RequestParams) {
	params := new(ucp.RequestParams)
	switch b.layout {
	case "contig":
		return b.pieces[0], params
	case "generic":
		params.Buffer = ucp.Generic(generic, b.pieces[0], len(b.pieces[0]))
	default:
		params.Buffer = ucp.IOV(b.pieces...)
	}
	return nil, params
}

// content identifies the expected bytes of a message: those that seed selects, from offset on.
type content struct{ seed, offset uint64 }

// contents parses an argument SEED or SEED+OFFSET.
func contents(arg string) (content, error) {
	seed, offset, isPart := strings.Cut(arg, "+")
	if !isPart {
		offset = "0"
	}
	n, err := numbers(seed, offset)
	if err != nil {
		return content{}, err
	}
	return content{n[0], n[1]}, nil
}

// from returns the contents after the first n bytes.
func (c content) from(n int) content { return content{c.seed, c.offset + uint64(n)} }

// fill writes a message to the pieces of the buffer.
func (b *buffer) fill(c content) {
	for _, p := range b.pieces {
		c.write(p)
		c = c.from(len(p))
	}
}

// compare returns "same" or the position of the first byte that differs.
func (c content) compare(b []byte) string {
	want := make([]byte, len(b))
	c.write(want)
	if i := firstDifference(b, want); i >= 0 {
		return fmt.Sprintf("differs@%d", i)
	}
	return "same"
}

// verify compares the first length bytes with a message, and all other bytes of the storage with
// their initial contents. It returns "same" or the position of the first wrong byte: an offset in
// the message or, for a byte outside of it, in the storage.
func (b *buffer) verify(c content, length int) string {
	want := bytes.Repeat([]byte{filler}, len(b.storage))
	start, offset := guard, 0
	for _, p := range b.pieces {
		part := want[start : start+min(len(p), length-offset)]
		c.from(offset).write(part)
		if i := firstDifference(p[:len(part)], part); i >= 0 {
			return fmt.Sprintf("differs@%d", offset+i)
		}
		offset += len(part)
		start += len(p) + guard
	}
	if i := firstDifference(b.storage, want); i >= 0 {
		return fmt.Sprintf("overrun@%d", i)
	}
	return "same"
}

// firstDifference returns the index at which two slices of one length differ, or -1.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// write writes the bytes of a message to p: byte i is byte i%8, from the low end, of
// word i/8.
func (c content) write(p []byte) {
	for len(p) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], patternWord(c.seed, c.offset/8))
		n := copy(p, word[c.offset%8:])
		p, c = p[n:], c.from(n)
	}
}

// patternWord is the SplitMix64 output function.
func patternWord(seed, index uint64) uint64 {
	x := seed + (index+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// copyType is a generic datatype that copies bytes.
type copyType struct{}

type copyState []byte

func (copyType) StartPack(object any, _ int) (ucp.PackState, error) {
	return copyState(object.([]byte)), nil
}

func (copyType) StartUnpack(object any, _ int) (ucp.UnpackState, error) {
	return copyState(object.([]byte)), nil
}

func (s copyState) PackedSize() int { return len(s) }

func (s copyState) Pack(offset int, dst []byte) int { return copy(dst, s[offset:]) }

func (s copyState) Unpack(offset int, src []byte) error {
	if offset > len(s) || len(src) > len(s)-offset {
		return ucs.ErrMessageTruncated
	}
	copy(s[offset:], src)
	return nil
}

func (copyState) Finish() {}
