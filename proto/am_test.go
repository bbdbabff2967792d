package proto

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

var amCodecs = map[string]recode{
	"AM_SINGLE": func(b []byte) ([]byte, error) {
		h, data, user, err := ParseAMSingle(b)
		return append(append(h.Append(nil), data...), user...), err
	},
	"AM_SINGLE_REPLY": func(b []byte) ([]byte, error) {
		h, f, data, user, err := ParseAMSingleReply(b)
		return f.Append(append(append(h.Append(nil), data...), user...)), err
	},
	"AM_FIRST": func(b []byte) ([]byte, error) {
		h, f, data, user, err := ParseAMFirst(b)
		return f.Append(append(append(h.Append(nil), data...), user...)), err
	},
	"AM_MIDDLE": func(b []byte) ([]byte, error) {
		m, data, err := ParseAMMiddle(b)
		out := make([]byte, AMHeaderSize+len(data)+AMMiddleFooterSize)
		n := m.PutHeader(out)
		n += copy(out[n:], data)
		m.PutFooter(out[n:])
		return out, err
	},
}

func TestAMGolden(t *testing.T) { checkGolden(t, "am.txt", amCodecs) }

// TestAMMessage parses a captured message in fragments: the first has the length of the message,
// the others their offsets.
func TestAMMessage(t *testing.T) {
	g := readGolden(t, "am.txt", "AM_FIRST", "AM_MIDDLE")
	h, f, data, user, err := ParseAMFirst(g[0].bytes)
	if err != nil || h != (AMHeader{ID: 7, HeaderLen: 6}) || string(user) != "header" || f.TotalLen != 20000 || len(data) != 8 {
		t.Fatalf("%+v %+v %x %q %v", h, f, data, user, err)
	}
	// The first fragment of 8192 bytes had 8192-8-24-6 bytes of payload.
	offset := 8192 - AMHeaderSize - AMFirstFooterSize - len(user)
	for _, e := range g[1:] {
		m, data, err := ParseAMMiddle(e.bytes)
		if want := (AMMiddle{Offset: offset, MsgID: f.MsgID, EpID: f.EpID}); err != nil || m != want || len(data) != 8 {
			t.Errorf("%+v, %v, want %+v", m, err, want)
		}
		offset += 8192 - AMHeaderSize - AMMiddleFooterSize
	}
	rh, rf, data, user, err := ParseAMSingleReply(readGolden(t, "am.txt", "AM_SINGLE_REPLY")[0].bytes)
	if err != nil || rh.Flags&AMFlagReply == 0 || rf.EpID == 0 || len(data) != 8 || string(user) != "header" {
		t.Errorf("%+v %+v %x %q %v", rh, rf, data, user, err)
	}
}

func TestAMPut(t *testing.T) {
	h := AMHeader{ID: 1, Flags: 2, HeaderLen: 3}
	checkPut(t, AMHeaderSize, h)
	checkPut(t, AMReplyFooterSize, AMReplyFooter{4})
	checkPut(t, AMFirstFooterSize, AMFirstFooter{5, 6, 7})
	if back := AMHeaderFromWord(h.Word()); back != h {
		t.Errorf("%+v came back as %+v", h, back)
	}
}

func TestAMRefuses(t *testing.T) {
	long := AMHeader{HeaderLen: 5}.Append(nil)
	huge := AMHeader{HeaderLen: 1<<32 - 1}.Append(nil)
	for _, tc := range []struct {
		name  string
		parse func() error
	}{
		{"single with a long header", func() error { _, _, _, err := ParseAMSingle(append(long, "four"...)); return err }},
		{"single with a huge header", func() error { _, _, _, err := ParseAMSingle(huge); return err }},
		{"reply with a long header", func() error {
			_, _, _, _, err := ParseAMSingleReply(append(append([]byte{}, long...), "four--ep-id-"...))
			return err
		}},
		{"first with a long header", func() error {
			_, _, _, _, err := ParseAMFirst(AMFirstFooter{TotalLen: 9}.Append(append([]byte{}, long...)))
			return err
		}},
		{"first with more payload than total", func() error {
			_, _, _, _, err := ParseAMFirst(AMFirstFooter{TotalLen: 3}.Append(append(AMHeader{}.Append(nil), "four"...)))
			return err
		}},
		{"first with a negative total", func() error {
			_, _, _, _, err := ParseAMFirst(AMFirstFooter{TotalLen: -1}.Append(AMHeader{}.Append(nil)))
			return err
		}},
		{"middle that wraps around", func() error {
			b := make([]byte, AMHeaderSize+1+AMMiddleFooterSize)
			AMMiddle{Offset: maxSize}.PutHeader(b)
			_, _, err := ParseAMMiddle(b)
			return err
		}},
	} {
		if err := tc.parse(); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	checkTruncation(t, AMHeaderSize, func(b []byte) error { _, _, _, err := ParseAMSingle(b); return err })
	checkTruncation(t, AMHeaderSize+AMReplyFooterSize, func(b []byte) error { _, _, _, _, err := ParseAMSingleReply(b); return err })
	checkTruncation(t, AMHeaderSize+AMFirstFooterSize, func(b []byte) error { _, _, _, _, err := ParseAMFirst(b); return err })
	checkTruncation(t, AMHeaderSize+AMMiddleFooterSize, func(b []byte) error { _, _, err := ParseAMMiddle(b); return err })
}

func TestAMNoAllocs(t *testing.T) {
	buf := make([]byte, 64)
	var sink int
	checkNoAllocs(t, "am", func() {
		sink += AMHeader{ID: 1}.Put(buf)
		_, d, u, _ := ParseAMSingle(buf)
		sink += len(d) + len(u)
		_, _, d, u, _ = ParseAMSingleReply(buf)
		sink += len(d) + len(u)
		_, _, d, u, _ = ParseAMFirst(buf)
		sink += len(d) + len(u)
		_, d, _ = ParseAMMiddle(buf)
		sink += len(d)
	})
	_ = sink
}

func FuzzAMSingle(f *testing.F) {
	seed(f, "am.txt", "AM_SINGLE")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		checkExact(t, b, amCodecs["AM_SINGLE"])
		h, data, userHeader, err := ParseAMSingle(b)
		if len(b) < AMHeaderSize {
			return
		}
		plain := IsPlainAM(le.Uint64(b))
		if plain && (err != nil || len(userHeader) > 0 || h.ID > 255 || !bytes.Equal(data, b[AMHeaderSize:])) || !plain && h.ID < 256 && h.HeaderLen == 0 {
			t.Errorf("plain %v; the parser %v %x %x %v", plain, h, data, userHeader, err)
		}
	})
}

func FuzzAMSingleReply(f *testing.F) {
	seed(f, "am.txt", "AM_SINGLE_REPLY")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, amCodecs["AM_SINGLE_REPLY"]) })
}

func FuzzAMFirst(f *testing.F) {
	seed(f, "am.txt", "AM_FIRST")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, amCodecs["AM_FIRST"]) })
}

func FuzzAMMiddle(f *testing.F) {
	seed(f, "am.txt", "AM_MIDDLE")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, amCodecs["AM_MIDDLE"]) })
}
