package proto

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

// golden is one captured message: a line "name hex" of a file in testdata/wire,
// under a heading that says where it comes from.
type golden struct {
	origin string
	name   string
	bytes  []byte
}

// readGolden returns the messages of a file, all of them or those with one of
// the names given.
func readGolden(tb testing.TB, file string, names ...string) []golden {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "wire", file))
	if err != nil {
		tb.Fatal(err)
	}
	var out []golden
	var origin string
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if h, ok := strings.CutPrefix(line, "## "); ok {
			origin = h
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, _ := strings.Cut(line, " ")
		raw, err := hex.DecodeString(text)
		if err != nil {
			tb.Fatalf("%s: %s: %v", file, name, err)
		}
		if len(names) == 0 || contains(names, name) {
			out = append(out, golden{origin, name, raw})
		}
	}
	if len(out) == 0 {
		tb.Fatalf("%s: no messages %v", file, names)
	}
	return out
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// recode parses a message and packs the result again.
type recode func(b []byte) ([]byte, error)

// checkGolden passes every message of a file to the recode of its name and compares bytes. Each
// name must occur, and no others.
func checkGolden(t *testing.T, file string, codecs map[string]recode) {
	t.Helper()
	seen := map[string]bool{}
	for _, g := range readGolden(t, file) {
		f, ok := codecs[g.name]
		if !ok {
			t.Errorf("%s: %s: no codec for %s", file, g.origin, g.name)
			continue
		}
		seen[g.name] = true
		out, err := f(g.bytes)
		if err != nil {
			t.Errorf("%s: %s: %s: %v", file, g.origin, g.name, err)
		} else if !bytes.Equal(out, g.bytes) {
			t.Errorf("%s: %s: %s:\n got %x\nwant %x", file, g.origin, g.name, out, g.bytes)
		}
	}
	for name := range codecs {
		if !seen[name] {
			t.Errorf("%s: no capture of %s", file, name)
		}
	}
}

// seed gives a fuzz target captured messages, whole and cut to several lengths.
func seed(f *testing.F, file string, names ...string) {
	f.Helper()
	for _, g := range readGolden(f, file, names...) {
		f.Add(g.bytes)
		for _, n := range []int{0, 1, len(g.bytes) / 2, len(g.bytes) - 1} {
			f.Add(g.bytes[:n])
		}
	}
}

// checkTruncation passes every prefix of a message to a parser that needs size bytes, and checks
// that the parser refuses it.
func checkTruncation(t *testing.T, size int, parse func([]byte) error) {
	t.Helper()
	whole := make([]byte, size)
	for n := range whole {
		err := parse(whole[:n:n])
		if err == nil {
			t.Fatalf("%d of %d bytes accepted", n, size)
		}
		var fe *FormatError
		if !errors.As(err, &fe) || !errors.Is(err, fe.Status) || fe.Status == ucs.OK {
			t.Fatalf("%d bytes: error %v carries no status", n, err)
		}
	}
	if err := parse(whole); err != nil {
		t.Fatalf("zeros of %d bytes: %v", size, err)
	}
}

// checkNoAllocs fails if fn allocates.
func checkNoAllocs(t *testing.T, name string, fn func()) {
	t.Helper()
	if race.Enabled {
		t.Skip("allocation counts are not meaningful under the race detector")
	}
	if n := testing.AllocsPerRun(100, fn); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}
