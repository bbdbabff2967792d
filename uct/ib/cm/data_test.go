//go:build linux

package cm

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

//go:embed testdata/wire.txt
var captured string

// message is a line of testdata/wire.txt.
type message struct {
	release, kind string
	data          []byte
}

func messages(t testing.TB) (list []message) {
	t.Helper()
	for line := range strings.Lines(captured) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		b, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, message{f[0], f[1], b})
	}
	return list
}

// TestDataOfC checks that data of C UCX is parsed, zero-padded as in the packet, and packed to the
// same bytes.
func TestDataOfC(t *testing.T) {
	field := map[string]int{"REQ": 56, "REP": 196}
	list := messages(t)
	for _, m := range list {
		b := append(bytes.Clone(m.data), make([]byte, field[m.kind]-len(m.data))...)
		status, private, err := parseData(b)
		if err != nil || status != ucs.OK || len(private) != len(m.data)-headerLen || len(private) > maxPrivate {
			t.Errorf("%s of %s: %v, %d bytes, %v", m.kind, m.release, status, len(private), err)
			continue
		}
		if d, err := proto.ParseCMData(private, nil); err != nil || d.ErrMode != proto.ErrModePeer || d.Address.NumIfaces() != 1 {
			t.Errorf("%s of %s: %+v, %v", m.kind, m.release, d, err)
		}
		if again := appendData(nil, ucs.OK, private); !bytes.Equal(again, m.data) {
			t.Errorf("%s of %s: %x, written as %x", m.kind, m.release, m.data, again)
		}
	}
	if len(list) < 16 {
		t.Errorf("%d messages", len(list))
	}
}

func TestData(t *testing.T) {
	if b := appendData(nil, ucs.ErrRejected, nil); !bytes.Equal(b, []byte{0, 0xe9}) {
		t.Errorf("a rejection is %x", b)
	}
	for _, c := range []struct {
		in      []byte
		status  ucs.Status
		private string
		err     error
	}{
		{nil, 0, "", errShort},
		{[]byte{0}, 0, "", errShort},
		{[]byte{0, 0}, ucs.OK, "", nil},
		{[]byte{1, 0}, 0, "", errShort},
		{[]byte{255, 0, 1, 2, 3}, 0, "", errShort},
		{[]byte{2, 0, 'h', 'i', 0, 0}, ucs.OK, "hi", nil},
		{[]byte{2, 0xe9, 'n', 'o'}, ucs.ErrRejected, "no", nil},
		{[]byte{0, 1}, 0, "", errStatus}, // in progress
		{[]byte{0, 127}, 0, "", errStatus},
	} {
		status, private, err := parseData(c.in)
		if !errors.Is(err, c.err) || status != c.status || string(private) != c.private || cap(private) != len(private) {
			t.Errorf("%x: %v, %q, %v", c.in, status, private, err)
		}
	}
}

// FuzzData checks that arbitrary data is parsed within its bounds, and that what is parsed is
// packed to the same bytes.
func FuzzData(f *testing.F) {
	for _, m := range messages(f) {
		f.Add(m.data)
	}
	f.Add(rejection)
	f.Add([]byte{255, 255, 255})
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		status, private, err := parseData(b)
		if err != nil {
			if private != nil {
				t.Errorf("%x: %x and %v", b, private, err)
			}
			return
		}
		if status > 0 || len(private) > 255 || !bytes.HasPrefix(b, appendData(nil, status, private)) {
			t.Errorf("%x: %v, %x", b, status, private)
		}
	})
}
