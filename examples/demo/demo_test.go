package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// TestMain runs the program instead if a test, or the program itself for its server, starts this
// binary.
func TestMain(m *testing.M) {
	if os.Getenv("DEMO") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDemo runs the program over every transport of the machine, and over a single one that is
// named.
func TestDemo(t *testing.T) {
	found, err := paths()
	if err != nil {
		t.Fatal(err)
	}
	demonstrate(t, found)
	demonstrate(t, found[:1], found[0].name)
}

// demonstrate runs the program with names of transports, and expects a row for each size in the
// table of each path.
func demonstrate(t *testing.T, want []path, names ...string) {
	t.Helper()
	program := exec.Command("/proc/self/exe", append([]string{"-time", "1us"}, names...)...)
	program.Env = append(os.Environ(), "DEMO=1")
	out, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tables := strings.Split(string(out), "\n\n")[1:]
	between := slices.ContainsFunc(want, func(p path) bool { return !p.alone() })
	if last := tables[len(tables)-1]; strings.HasPrefix(last, "Between processes here: ") != between {
		t.Errorf("the end is %q", last)
	} else if between {
		tables = tables[:len(tables)-1]
	}
	if len(tables) != len(want) {
		t.Fatalf("%d tables, want %d:\n%s", len(tables), len(want), out)
	}
	for i, p := range want {
		if !strings.HasPrefix(tables[i], p.title()) {
			t.Errorf("table of %s begins with %q", p.name, tables[i])
		}
		for _, size := range sizes {
			row := regexp.MustCompile(`(?m)^ *` + sizeName(size) + ` +[\d.]+ (µs|ms|s ) +[\d.]+ MiB/s +\d+ msg/s$`)
			if !row.MatchString(tables[i]) {
				t.Errorf("no row for %s in\n%s", sizeName(size), tables[i])
			}
		}
	}
}

// TestPaths expects the paths in order of their kind.
func TestPaths(t *testing.T) {
	found, err := paths()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range found {
		names = append(names, p.name)
	}
	all := strings.Join(names, " ")
	if !regexp.MustCompile(`^self (sysv )?(posix )?(cma )?((rc_verbs|ud_verbs|tcp)/\S+ ?)*$`).MatchString(all) {
		t.Errorf("paths %q", all)
	}
}

func TestUnknownPath(t *testing.T) {
	if _, _, err := (path{name: "tcp/no-such-device", kind: uct.DeviceNetwork}).open(); err == nil {
		t.Error("a device that does not exist was opened")
	}
	if _, err := find([]path{{name: "self"}}, "tcp"); err == nil {
		t.Error("a path that does not exist was found")
	}
}

func TestOrder(t *testing.T) {
	want := order{pattern: stream, size: 4096, count: 7}
	got, err := parseOrder(want.bytes())
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	bad := [][]byte{nil, make([]byte, orderSize+1), order{pattern: finish + 1}.bytes(), order{size: maxSize + 1}.bytes()}
	for _, b := range bad {
		if o, err := parseOrder(b); err == nil {
			t.Errorf("%x was taken for %+v", b, o)
		}
	}
}
