package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
)

// base is a group of settings that another section inherits.
type base struct {
	MaxIov int `ucx:"MAX_IOV" default:"16" doc:"Entries."`
}

type testSettings struct {
	Base   base          `prefix:"TESTBASE_"`
	Seg    Bytes         `ucx:"SEG_SIZE,SEGMENT" default:"8k" doc:"Size of a buffer.\nIn bytes."`
	Wait   time.Duration `ucx:"WAIT" default:"20ms" doc:"How long."`
	Enable Ternary       `ucx:"ENABLE" default:"try" doc:"Whether."`
	Names  []string      `ucx:"NAMES" default:"a,b" doc:"Which."`
	NoTag  map[string]int
}

func newTest() any { return new(testSettings) }

func init() {
	Register(Section{Name: "test", Prefix: "TEST_", Title: "test transport", New: newTest})
}

// clean removes all files and variables that Read could find.
func clean(t *testing.T) {
	t.Helper()
	reported.Clear()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.Contains(name, "UCX_") {
			t.Setenv(name, "") // restored at the end of the test
			os.Unsetenv(name)
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustRead(t *testing.T, prefix, file string) *Set {
	t.Helper()
	s, err := Read(prefix, file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustLoad(t *testing.T, s *Set) testSettings {
	t.Helper()
	var v testSettings
	if err := s.Load("test", &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDefaults(t *testing.T) {
	clean(t)
	want := testSettings{Base: base{16}, Seg: 8192, Wait: 20 * time.Millisecond, Enable: Try, Names: []string{"a", "b"}}
	for name, s := range map[string]*Set{"nil": nil, "zero": new(Set), "read": mustRead(t, "", "")} {
		if diff := cmp.Diff(want, mustLoad(t, s)); diff != "" {
			t.Errorf("%s set: %s", name, diff)
		}
		value, origin, ok := s.Lookup("TEST_SEG_SIZE")
		if value != "8k" || origin != (Origin{}) || !ok {
			t.Errorf("%s set: Lookup = %q, %v, %v", name, value, origin, ok)
		}
	}
}

// TestOrder sets one name in more and more places, each of which overrides those before.
func TestOrder(t *testing.T) {
	clean(t)
	extra := filepath.Join(t.TempDir(), "extra.conf")
	confDir := t.TempDir()
	expect := func(want Bytes, origin string) {
		t.Helper()
		s := mustRead(t, "APP", extra)
		if got := mustLoad(t, s).Seg; got != want {
			t.Errorf("SEG_SIZE = %v, want %v", got, want)
		}
		_, o, ok := s.Lookup("UCX_TEST_SEG_SIZE")
		if !ok || !strings.HasSuffix(o.String(), origin) {
			t.Errorf("origin %v, want %v", o, origin)
		}
	}
	expect(8192, "default")
	write(t, filepath.Join(os.Getenv("HOME"), fileName), "UCX_TEST_SEG_SIZE=1k\n")
	expect(1<<10, "ucx.conf:1 (UCX_TEST_SEG_SIZE)")
	t.Setenv("UCX_CONFIG_DIR", confDir)
	write(t, filepath.Join(confDir, fileName), "\nUCX_TEST_SEG_SIZE=2k\n")
	expect(2<<10, "ucx.conf:2 (UCX_TEST_SEG_SIZE)")
	write(t, fileName, "\n\nUCX_TEST_SEG_SIZE = 3k\n")
	expect(3<<10, "ucx.conf:3 (UCX_TEST_SEG_SIZE)")
	write(t, extra, "UCX_TEST_SEG_SIZE: 4k\n")
	expect(4<<10, "extra.conf:1 (UCX_TEST_SEG_SIZE)")
	t.Setenv("UCX_TEST_SEG_SIZE", "5k")
	expect(5<<10, "environment (UCX_TEST_SEG_SIZE)")
	write(t, extra, "APP_UCX_TEST_SEG_SIZE=6k\n")
	expect(6<<10, "extra.conf:1 (APP_UCX_TEST_SEG_SIZE)")
	t.Setenv("APP_UCX_TEST_SEG_SIZE", "7k")
	expect(7<<10, "environment (APP_UCX_TEST_SEG_SIZE)")

	s := mustRead(t, "APP", extra)
	if err := s.Modify("TEST_SEG_SIZE", "9k"); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, s).Seg; got != 9<<10 {
		t.Errorf("after Modify SEG_SIZE = %v", got)
	}
	if _, o, _ := s.Lookup("TEST_SEG_SIZE"); o.String() != "call" {
		t.Errorf("origin %v, want call", o)
	}
	// The prefix of another application has no effect.
	if got := mustLoad(t, mustRead(t, "OTHER", "")).Seg; got != 5<<10 {
		t.Errorf("with another prefix SEG_SIZE = %v", got)
	}
}

func TestSnapshot(t *testing.T) {
	clean(t)
	s := mustRead(t, "", "")
	t.Setenv("UCX_TEST_SEG_SIZE", "1k")
	if got := mustLoad(t, s).Seg; got != 8192 {
		t.Errorf("a change of the environment reached the set: %v", got)
	}
	c := s.Clone()
	if err := c.Modify("TEST_SEG_SIZE", "2k"); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, s).Seg; got != 8192 {
		t.Errorf("a change of the clone reached the set: %v", got)
	}
	if got := mustLoad(t, c).Seg; got != 2048 {
		t.Errorf("the clone has %v", got)
	}
	if (*Set)(nil).Clone() != nil {
		t.Error("a clone of nil is something")
	}
}

func TestInheritanceAndAliases(t *testing.T) {
	clean(t)
	for _, tc := range []struct {
		env  map[string]string
		want func(v testSettings) bool
	}{
		{map[string]string{"UCX_TESTBASE_MAX_IOV": "3"}, func(v testSettings) bool { return v.Base.MaxIov == 3 }},
		{map[string]string{"UCX_TESTBASE_MAX_IOV": "3", "UCX_TEST_MAX_IOV": "4"}, func(v testSettings) bool { return v.Base.MaxIov == 4 }},
		// A name with the application's prefix has priority over the more specific name, as in C
		// UCX.
		{map[string]string{"APP_UCX_TESTBASE_MAX_IOV": "3", "UCX_TEST_MAX_IOV": "4"}, func(v testSettings) bool { return v.Base.MaxIov == 3 }},
		{map[string]string{"UCX_TEST_SEGMENT": "1k"}, func(v testSettings) bool { return v.Seg == 1<<10 }},
		{map[string]string{"UCX_TEST_SEGMENT": "1k", "UCX_TEST_SEG_SIZE": "2k"}, func(v testSettings) bool { return v.Seg == 2<<10 }},
	} {
		t.Run("", func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			if v := mustLoad(t, mustRead(t, "APP", "")); !tc.want(v) {
				t.Errorf("%v gives %+v", tc.env, v)
			}
		})
	}
}

func TestBadValues(t *testing.T) {
	clean(t)
	t.Setenv("UCX_TEST_SEG_SIZE", "much")
	_, err := Read("", "")
	var ve *ValueError
	if !errors.As(err, &ve) || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Fatalf("Read = %v", err)
	}
	want := `config: UCX_TEST_SEG_SIZE="much" from environment: invalid syntax; ` +
		`expected memory units: <number>[b|kb|mb|gb], "inf", or "auto"`
	if err.Error() != want {
		t.Errorf("error\n%s, want\n%s", err, want)
	}
	t.Setenv("UCX_TEST_SEG_SIZE", strings.Repeat("x", 100000))
	if _, err := Read("", ""); err == nil || len(err.Error()) > 1000 {
		t.Error("a long value gives no error, or a long one")
	}
}

func TestModify(t *testing.T) {
	clean(t)
	t.Setenv("UCX_TEST_WAIT", "1ms")
	s := mustRead(t, "APP", "")
	for _, tc := range []struct {
		name, value string
		ok          bool
	}{
		{"TEST_SEG_SIZE", "1k", true},
		{"UCX_TEST_SEG_SIZE", "2k", true},
		{"APP_UCX_TEST_SEG_SIZE", "3k", true},
		{"TEST_SEG_SIZE", "x", false},
		{"TEST_ENABLE", "", false},
		{"*_WAIT", "x", false},
		{"NO_SUCH_THING", "x", true},
		{"", "x", false},
		{"UCX_", "x", false},
		{"[", "x", false},
	} {
		err := s.Modify(tc.name, tc.value)
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("Modify(%q, %q) = %v", tc.name, tc.value, err)
		}
	}
	v := mustLoad(t, s)
	if v.Seg != 3<<10 || v.Wait != time.Millisecond {
		t.Errorf("settings %+v", v)
	}
	if value, o, ok := s.Lookup("NO_SUCH_THING"); value != "x" || o.Kind != FromCall || !ok {
		t.Errorf("Lookup of an unknown name = %q, %v, %v", value, o, ok)
	}
	if _, _, ok := s.Lookup("NOT_EVEN_SET"); ok {
		t.Error("Lookup knows a name nobody knows")
	}
	// The last call counts, whether it names one setting or many.
	for _, step := range []struct {
		name, value string
		want        int
	}{{"TEST_MAX_IOV", "1", 1}, {"TEST*_MAX_IOV", "2", 2}, {"TEST_MAX_IOV", "1", 1}, {"TESTBASE_MAX_IOV", "5", 5}} {
		if err := s.Modify(step.name, step.value); err != nil {
			t.Fatal(err)
		}
		if got := mustLoad(t, s).Base.MaxIov; got != step.want {
			t.Errorf("after %s=%s MAX_IOV = %d", step.name, step.value, got)
		}
	}
	// Repeating a call takes no more memory.
	calls := len(s.calls)
	for range 100 {
		if err := s.Modify("TEST_MAX_IOV", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.calls) != calls {
		t.Errorf("%d calls are kept, before it were %d", len(s.calls), calls)
	}
}

func TestLoadErrors(t *testing.T) {
	var s *Set
	var v testSettings
	var nilPtr *testSettings
	for _, tc := range []struct {
		section string
		dst     any
	}{
		{"nothing", &v}, {"test", v}, {"test", nilPtr}, {"test", nil}, {"test", new(int)},
	} {
		if err := s.Load(tc.section, tc.dst); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("Load(%q, %T) = %v", tc.section, tc.dst, err)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	for name, s := range map[string]Section{
		"twice":     {Name: "test", New: newTest},
		"no struct": {Name: "x", New: func() any { return 1 }},
		"nil":       {Name: "x", New: func() any { return nil }},
		"bad name": {Name: "x", New: func() any {
			return new(struct {
				A int `ucx:"lower" default:"1"`
			})
		}},
		"bad type": {Name: "x", New: func() any {
			return new(struct {
				A int8 `ucx:"A" default:"1"`
			})
		}},
		"bad default": {Name: "x", New: func() any {
			return new(struct {
				A int `ucx:"A" default:"one"`
			})
		}},
		"not exported": {Name: "x", New: func() any {
			return new(struct {
				a int `ucx:"A" default:"1"`
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("registered")
				}
			}()
			Register(s)
		})
	}
	if lookupSection("x") != nil {
		t.Error("a refused section is there")
	}
}

func TestSectionsOrder(t *testing.T) {
	last := ""
	for _, s := range Sections() {
		if s.Prefix < last {
			t.Errorf("section %q after prefix %q", s.Name, last)
		}
		last = s.Prefix
	}
}
