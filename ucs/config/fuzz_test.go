package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

// valueTypes are the types of settings that this package can parse.
var valueTypes = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[uint](), reflect.TypeFor[float64](),
	reflect.TypeFor[string](), reflect.TypeFor[time.Duration](), reflect.TypeFor[[]string](), reflect.TypeFor[[]Range](),
	reflect.TypeFor[Bytes](), reflect.TypeFor[Count](), reflect.TypeFor[Time](), reflect.TypeFor[Bandwidth](),
	reflect.TypeFor[Ternary](), reflect.TypeFor[OnOffAuto](), reflect.TypeFor[List](), reflect.TypeFor[Range](),
	reflect.TypeFor[Transports](),
}

// FuzzValues parses any text as a value of every type. The printed form of an accepted value is
// accepted again and prints the same.
func FuzzValues(f *testing.F) {
	for _, s := range []string{
		"", "y", "try", "auto", "inf", "-1", "8k", "8kb", "1.5us", "2200MBs", "all", "^a,b", "eth[0-3]:1",
		"1000-2000", `\rc,ud:aux`, "1e300m", "99999999999999999999", "0x7f", "a[18446744073709551615-0]",
	} {
		f.Add(s)
	}
	fuzztest.Run(f, func(t *testing.T, s string) {
		for _, typ := range valueTypes {
			v := reflect.New(typ).Elem()
			if parseInto(v, s) != nil {
				continue
			}
			printed := format(v)
			w := reflect.New(typ).Elem()
			if err := parseInto(w, printed); err != nil {
				t.Fatalf("%v %q prints as %q, which is refused: %v", typ, s, printed, err)
			}
			if again := format(w); again != printed {
				t.Fatalf("%v %q prints as %q and then as %q", typ, s, printed, again)
			}
			switch p := v.Addr().Interface().(type) {
			case *List:
				p.Match(s)
				p.MatchDevice(s)
			case *Transports:
				p.Use(s)
			}
		}
	})
}

// FuzzFile parses any text as a settings file.
func FuzzFile(f *testing.F) {
	f.Add("# comment\nUCX_TLS=tcp ; comment\n[x]\nCPU vendor=Intel\nUCX_A: b\n")
	f.Add("\ufeff[x\n=\n:\nA==B\r\n")
	fuzztest.Run(f, func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		last := 0
		parseFile(strings.NewReader(text), "f", &host{root: "/nowhere"}, func(name, value string, o Origin) {
			if o.Line <= last || o.Line > lines {
				t.Fatalf("line %d of %d after line %d", o.Line, lines, last)
			}
			last = o.Line
			if !strings.Contains(text, name) || !strings.Contains(text, value) {
				t.Fatalf("%q=%q is not in the file", name, value)
			}
		})
	})
}

// FuzzSet changes settings by any name and value and reads them back.
func FuzzSet(f *testing.F) {
	f.Add("TEST_SEG_SIZE", "8k")
	f.Add("UCX_TEST_*", "y")
	f.Add("[a-", "")
	fuzztest.Run(f, func(t *testing.T, name, value string) {
		s := new(Set)
		if s.Modify(name, value) != nil {
			return
		}
		if err := s.Load("test", new(testSettings)); err != nil {
			t.Fatalf("Modify(%q, %q) was taken, but: %v", name, value, err)
		}
		s.Lookup(name)
		s.Unknown()
		var b strings.Builder
		if err := s.Write(&b, "", PrintConfig|PrintDoc|PrintHidden); err != nil {
			t.Fatal(err)
		}
	})
}
