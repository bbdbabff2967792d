package proto

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

var tagCodecs = map[string]recode{
	"EAGER_ONLY": func(b []byte) ([]byte, error) {
		h, data, err := ParseEagerOnly(b)
		return append(h.Append(nil), data...), err
	},
	"EAGER_FIRST": func(b []byte) ([]byte, error) {
		h, data, err := ParseEagerFirst(b)
		return append(h.Append(nil), data...), err
	},
	"EAGER_MIDDLE": func(b []byte) ([]byte, error) {
		h, data, err := ParseEagerMiddle(b)
		return append(h.Append(nil), data...), err
	},
	"EAGER_SYNC_ONLY": func(b []byte) ([]byte, error) {
		h, data, err := ParseEagerSyncOnly(b)
		return append(h.Append(nil), data...), err
	},
	"EAGER_SYNC_FIRST": func(b []byte) ([]byte, error) {
		h, data, err := ParseEagerSyncFirst(b)
		return append(h.Append(nil), data...), err
	},
	"EAGER_SYNC_ACK": func(b []byte) ([]byte, error) {
		h, err := ParseEagerSyncAck(b)
		return h.Append(nil), err
	},
}

func TestTagGolden(t *testing.T) { checkGolden(t, "tag.txt", tagCodecs) }

func TestEagerFields(t *testing.T) {
	g := readGolden(t, "tag.txt", "EAGER_FIRST")[0]
	h, data, err := ParseEagerFirst(g.bytes)
	if err != nil {
		t.Fatal(err)
	}
	if want := (EagerFirst{Tag: 0x1337a880, TotalLen: 100000, MsgID: 0x9b893d7f40d0c056}); h != want || len(data) != 8 {
		t.Errorf("got %+v with %d bytes, want %+v with 8", h, len(data), want)
	}
	g = readGolden(t, "tag.txt", "EAGER_MIDDLE")[0]
	m, _, err := ParseEagerMiddle(g.bytes)
	if want := (EagerMiddle{MsgID: 0x9b893d7f40d0c056, Offset: 8192 - EagerFirstSize}); err != nil || m != want {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
}

func TestEagerRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parse func() error
	}{
		{"first with more payload than total", func() error {
			_, _, err := ParseEagerFirst(append(EagerFirst{TotalLen: 3}.Append(nil), "four"...))
			return err
		}},
		{"first with a negative length", func() error {
			_, _, err := ParseEagerFirst(EagerFirst{TotalLen: -1}.Append(nil))
			return err
		}},
		{"middle with a negative offset", func() error {
			_, _, err := ParseEagerMiddle(EagerMiddle{Offset: -1}.Append(nil))
			return err
		}},
		{"middle that wraps around", func() error {
			_, _, err := ParseEagerMiddle(append(EagerMiddle{Offset: maxSize}.Append(nil), 1))
			return err
		}},
		{"sync first with more payload than total", func() error {
			_, _, err := ParseEagerSyncFirst(append(EagerSyncFirst{EagerFirst: EagerFirst{TotalLen: 3}}.Append(nil), "four"...))
			return err
		}},
	} {
		if err := tc.parse(); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	checkTruncation(t, EagerOnlySize, func(b []byte) error { _, _, err := ParseEagerOnly(b); return err })
	checkTruncation(t, EagerFirstSize, func(b []byte) error { _, _, err := ParseEagerFirst(b); return err })
	checkTruncation(t, EagerMiddleSize, func(b []byte) error { _, _, err := ParseEagerMiddle(b); return err })
}

// put is a header that can be packed into a transmit buffer or appended.
type put interface {
	Put(dst []byte) int
	Append(b []byte) []byte
}

// checkPut checks that Put and Append pack the same bytes.
func checkPut(t *testing.T, size int, h put) {
	t.Helper()
	buf := bytes.Repeat([]byte{0xEE}, size+1)
	if n := h.Put(buf); n != size {
		t.Errorf("%T: Put returned %d, want %d", h, n, size)
	}
	if want := append(h.Append(nil), 0xEE); !bytes.Equal(buf, want) {
		t.Errorf("%T: Put %x, Append %x", h, buf, want)
	}
}

func TestEagerPut(t *testing.T) {
	checkPut(t, EagerOnlySize, EagerOnly{1})
	checkPut(t, EagerFirstSize, EagerFirst{1, 2, 3})
	checkPut(t, EagerMiddleSize, EagerMiddle{1, 2})
	if w := (EagerOnly{0x0102}).Word(); w != 0x0102 {
		t.Errorf("Word %#x", w)
	}
}

func TestEagerNoAllocs(t *testing.T) {
	buf := make([]byte, 64)
	var sink int
	checkNoAllocs(t, "eager", func() {
		sink += EagerOnly{1}.Put(buf)
		_, d, _ := ParseEagerOnly(buf)
		sink += len(d)
		sink += EagerFirst{1, 100, 3}.Put(buf)
		_, d, _ = ParseEagerFirst(buf)
		sink += len(d)
		sink += EagerMiddle{1, 2}.Put(buf)
		_, d, _ = ParseEagerMiddle(buf)
		sink += len(d)
		_, d, _ = ParseEagerFirst(buf[:4]) // refusing a message allocates nothing either
		sink += len(d)
		sink += len(EagerFirst{1, 100, 3}.Append(buf[:0]))
	})
	_ = sink
}

func FuzzEagerOnly(f *testing.F) {
	seed(f, "tag.txt", "EAGER_ONLY")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, tagCodecs["EAGER_ONLY"]) })
}

func FuzzEagerFirst(f *testing.F) {
	seed(f, "tag.txt", "EAGER_FIRST")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, tagCodecs["EAGER_FIRST"]) })
}

func FuzzEagerMiddle(f *testing.F) {
	seed(f, "tag.txt", "EAGER_MIDDLE")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, tagCodecs["EAGER_MIDDLE"]) })
}

// checkExact checks that a message that is accepted is packed again with the same bytes.
func checkExact(t *testing.T, b []byte, f recode) {
	out, err := f(b)
	if err == nil && !bytes.Equal(out, b) {
		t.Errorf("got %x from %x", out, b)
	}
}
