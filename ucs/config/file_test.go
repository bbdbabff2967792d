package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
)

// parse parses text as a file and returns its settings; of equal names the last one counts.
func parse(text string, h *host) (map[string]string, error) {
	got := make(map[string]string)
	err := parseFile(strings.NewReader(text), "f", h, func(name, value string, o Origin) {
		got[name] = fmt.Sprintf("%s@%d", value, o.Line)
	})
	return got, err
}

func TestParseFile(t *testing.T) {
	text := "\ufeff# comment\n" +
		"; comment\n" +
		"UCX_A=1\n" +
		"  UCX_B : 2  \n" +
		"UCX_C=x y ; comment\n" +
		"UCX_D=x;y\n" +
		"UCX_E=a=b:c\n" +
		"UCX_F=\r\n" +
		"[section] anything\n" +
		"\n" +
		"UCX_A=3"
	got, err := parse(text, &host{root: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"UCX_A": "3@11", "UCX_B": "2@4", "UCX_C": "x y@5", "UCX_D": "x;y@6", "UCX_E": "a=b:c@7", "UCX_F": "@8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseFileErrors(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no value":   {"UCX_A=1\nUCX_B\n", "f:2: "},
		"no bracket": {"[section\n", "f:1: "},
		"long line":  {"UCX_A=" + strings.Repeat("x", maxValue), "token too long"},
		"long file":  {strings.Repeat("# comment\n", maxFile/10+1), "larger than"},
		"binary":     {"\x7fELF\x02\x01\x01\x00\x00", "f:1: "},
	} {
		if _, err := parse(tc.text, &host{}); !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parse(strings.Repeat("# comment\n", maxFile/10), &host{}); err != nil {
		t.Errorf("a file of the largest size: %v", err)
	}
}

// fakeHost returns a host whose files contain these facts.
func fakeHost(t *testing.T, cpuinfo, product string) *host {
	t.Helper()
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/cpuinfo": cpuinfo,
		"sys/devices/virtual/dmi/id/product_name": product,
	} {
		if text == "" {
			continue
		}
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	return &host{root: root}
}

func TestSectionsForMachines(t *testing.T) {
	const intel = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
	h := fakeHost(t, intel, "Model X/10 rev 2\n")
	got, err := parse(`
UCX_ALWAYS=1
[intel]
CPU vendor = intel
UCX_INTEL=1
[amd]
UCX_BEFORE=1
CPU vendor = AMD
UCX_AMD=1
[haswell]
CPU model = *
UCX_MODEL=1
[product]
Product name = model x*
UCX_PRODUCT=1
CPU vendor = Intel
UCX_BOTH=1
Product name = Y*
CPU vendor = Intel
UCX_NOT_BOTH=1
[rest]
UCX_REST=1
`, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ALWAYS", "INTEL", "BEFORE", "PRODUCT", "BOTH", "REST"} {
		if _, ok := got["UCX_"+name]; !ok {
			t.Errorf("UCX_%s is passed over", name)
		}
		delete(got, "UCX_"+name)
	}
	if len(got) != 0 {
		t.Errorf("taken from sections for other machines: %v", got)
	}
}

func TestBadFile(t *testing.T) {
	clean(t)
	bad := write(t, filepath.Join(t.TempDir(), "bad.conf"), "UCX_TEST_SEG_SIZE=8k\nUCX_TEST_WAIT=soon\n")
	_, err := Read("", bad)
	if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), "bad.conf:2: invalid syntax") {
		t.Errorf("Read = %v", err)
	}
	write(t, bad, "what is this\n")
	if _, err := Read("", bad); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("Read = %v", err)
	}
}

func TestSearchPath(t *testing.T) {
	env := map[string]string{"HOME": "/home/u", "UCX_CONFIG_DIR": "/conf"}
	got := searchPath(func(k string) string { return env[k] }, func() (string, error) { return "/opt/app/bin/prog", nil })
	want := []string{"/etc/ucx/ucx.conf", "/opt/app/etc/ucx/ucx.conf", "/home/u/ucx.conf", "/conf/ucx.conf", "ucx.conf"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = searchPath(func(string) string { return "" }, func() (string, error) { return "", errors.New("unknown") })
	if diff := cmp.Diff([]string{"/etc/ucx/ucx.conf", "ucx.conf"}, got); diff != "" {
		t.Error(diff)
	}
}
