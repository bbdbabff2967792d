//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// message is a message of a conversation between C tools.
type message struct {
	client bool // sent by the client
	b      []byte
}

// conversations reads the recorded messages of C tools, by test.
func conversations(t testing.TB) map[string][]message {
	t.Helper()
	f, err := os.Open("testdata/conversations.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]message{}
	name := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text := lines.Text()
		switch {
		case text == "" || text[0] == '#':
		case text[0] == '>' || text[0] == '<':
			b, err := hex.DecodeString(text[2:])
			if err != nil {
				t.Fatal(err)
			}
			all[name] = append(all[name], message{text[0] == '>', b})
		default:
			name = text
		}
	}
	if len(all) == 0 {
		t.Fatal("no conversations")
	}
	return all
}

// TestGolden parses what C has packed, and packs the same.
func TestGolden(t *testing.T) {
	kinds := map[int]int{}
	for name, list := range conversations(t) {
		for i, m := range list {
			kinds[len(m.b)]++
			var again []byte
			var err error
			switch len(m.b) {
			case versionLen:
				_, err = parseVersion(m.b)
				again = appendVersion(nil, version)
			case numberLen:
				var n int
				n, err = parseNumber("size", m.b, 4096)
				again = appendNumber(nil, n)
			case mtuLen:
				var mtu verbs.MTU
				mtu, err = parseMTU(m.b)
				again = appendMTU(nil, mtu)
			case keysGIDLen:
				var k keys
				k, err = parseKeys(m.b, true)
				again = k.append(nil, true)
				if k.gid.Addr().String() != "127.0.0.1" || k.qpn < 0x11 || k.psn == 0 || k.addr == 0 {
					t.Errorf("%s, message %d: %+v", name, i, k)
				}
			case reportLen:
				again = m.b // checked by TestGoldenReport
			case len(doneMessage):
				again = doneMessage
			}
			if err != nil || !bytes.Equal(again, m.b) {
				t.Errorf("%s, message %d: %q, ours is %q: %v", name, i, m.b, again, err)
			}
		}
	}
	for _, n := range []int{versionLen, numberLen, mtuLen, keysGIDLen, reportLen, len(doneMessage)} {
		if kinds[n] == 0 {
			t.Errorf("no message of %d bytes", n)
		}
	}
}

// TestGoldenReport parses the results of a bandwidth test, whose size and number of messages are
// known.
func TestGoldenReport(t *testing.T) {
	var r report
	n := 0
	for _, m := range conversations(t)["write_bw"] {
		if len(m.b) == reportLen && m.client {
			r.setField(n, m.b)
			if !bytes.Equal(r.field(n), m.b) {
				t.Errorf("field %d: %x, want %x", n, r.field(n), m.b)
			}
			n++
		}
	}
	if n != reportFields || r.size != 64 || r.iters != 20 || !(r.peak >= r.average) ||
		math.Abs(r.average*mib/64/1e6-r.rate) > 1e-9 {
		t.Errorf("%d fields: %+v", n, r)
	}
}

func TestKeysWithoutGID(t *testing.T) {
	k := keys{lid: 0x12, outReads: 16, qpn: 0xabcdef, psn: 0x123456, rkey: 0xdeadbeef, addr: 1<<63 | 5, srqn: 7}
	b := k.append(nil, false)
	if string(b) != "0012:0010:abcdef:123456:deadbeef:8000000000000005:00000007\x00" || len(b) != keysSize(false) {
		t.Errorf("%q", b)
	}
	if again, err := parseKeys(b, false); err != nil || again != k {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestHostileMessages(t *testing.T) {
	good := (&keys{qpn: 1, gid: verbs.GID{15: 1}}).append(nil, true)
	change := func(at int, c byte) []byte {
		b := bytes.Clone(good)
		b[at] = c
		return b
	}
	for i, b := range [][]byte{nil, good[:107], change(0, 'x'), change(4, '0'), change(0, 'A'), change(0, ' '), change(3, 0), change(106, ';'),
		change(107, ':'), append(bytes.Clone(good), 0), bytes.Repeat([]byte{':'}, keysGIDLen), bytes.Repeat([]byte{0}, keysGIDLen)} {
		if k, err := parseKeys(b, true); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("keys %d, %q: %+v, %v", i, b, k, err)
		}
	}
	if k, err := parseKeys(good, false); err == nil {
		t.Errorf("keys of the other kind: %+v", k)
	}
	for _, v := range []string{"", "5.69", "NaN", "Inf", "-6.06", "6.06 ", "x"} {
		if _, err := parseVersion(appendVersion(nil, v)); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("version %q: %v", v, err)
		}
	}
	for _, n := range []int{0, 3, 8192, -1, -1 << 31} {
		if got, err := parseNumber("page size", appendNumber(nil, n), 4096); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
	for _, m := range []string{"0\x00", "6\x00", "55", "\x00\x00", "-1"} {
		if got, err := parseMTU([]byte(m)); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%q: %v, %v", m, got, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, list := range conversations(f) {
		for _, m := range list {
			f.Add(m.b, true)
		}
	}
	f.Add((&keys{lid: 1}).append(nil, false), false)
	fuzztest.Run(f, func(t *testing.T, b []byte, gid bool) {
		k, err := parseKeys(b, gid)
		if err == nil && !bytes.Equal(k.append(nil, gid), b) {
			t.Errorf("%q became %q", b, k.append(nil, gid))
		}
	})
}

// TestAlternate compares the format with what C prints for "%#04x %#06x %#08x".
func TestAlternate(t *testing.T) {
	var got []string
	for _, c := range []struct {
		v     uint64
		width int
	}{{0, 4}, {0x12, 6}, {0x100000, 6}, {0x2ed, 8}, {0xdeadbeef, 8}} {
		got = append(got, alternate(c.v, c.width))
	}
	if s := strings.Join(got, " "); s != "0000 0x0012 0x100000 0x0002ed 0xdeadbeef" {
		t.Error(s)
	}
}
