package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs/config"
)

// cTools finds C's ucx_info: the one in PATH and those of the installations in CPEERS.
func cTools(t *testing.T) []string {
	var tools []string
	if path, err := exec.LookPath("ucx_info"); err == nil {
		tools = append(tools, path)
	}
	for _, prefix := range filepath.SplitList(os.Getenv("CPEERS")) {
		tool := filepath.Join(prefix, "bin", "ucx_info")
		if _, err := os.Stat(tool); err != nil {
			t.Errorf("CPEERS: %v", err)
			continue
		}
		tools = append(tools, tool)
	}
	if len(tools) == 0 {
		needtest.Tool(t, "C's ucx_info (apt-get install ucx-utils)")
	}
	return tools
}

// block is a part of the output of -d: the lines of one memory domain or of one
// interface, in order.
type block struct {
	title string // "domain tcp", "tcp on lo"
	lines []line
}

type line struct{ key, value string }

// keys returns the keys of the lines.
func (b block) keys() []string {
	var keys []string
	for _, l := range b.lines {
		keys = append(keys, l.key)
	}
	return keys
}

// blocks parses the output of -d.
func blocks(text string) []block {
	var list []block
	transport := ""
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(strings.TrimPrefix(key, "#")) {
		case "", "< failed to open connection manager rdmacm >", "< failed to open connection manager rdmacm": // of C, of this tool
			continue
		case "Memory domain", "Connection manager":
			title := "domain " + value
			if strings.Contains(key, "manager") {
				title = "manager of " + value
			}
			list = append(list, block{title: title})
		case "Transport":
			transport = value
			list = append(list, block{})
		case "Device":
			if transport == "self" {
				value = "memory" // memory0 before 1.22
			}
			list[len(list)-1].title = transport + " on " + value
		}
		if len(list) > 0 {
			b := &list[len(list)-1]
			b.lines = append(b.lines, line{key, value})
		}
	}
	return list
}

// builtIn are the domains and transports of both this library and C.
var builtIn = []string{"self", "tcp", "sysv", "posix", "cma"}

// otherwise lists lines that differ from C's, with the reason.
var otherwise = map[line]string{
	{"domain self", "#           remote key"}:  "a key opens the memory that it was packed for; C's opens all",
	{"domain tcp", "#             register"}:   "peers write only to what is registered; C does not check",
	{"domain tcp", "#         memory types"}:   "as above",
	{"tcp on lo", "#       device address"}:    "the long form, which both releases of C read",
	{"domain posix", "#             allocate"}: "a measured value",
	{"domain sysv", "#             allocate"}:  "a measured value",
	{"tcp on ...", "#            bandwidth"}:   "a measured value",
	{"tcp on ...", "#              latency"}:   "a measured value",
	{"tcp on ...", "#      device priority"}:   "a measured value",
	{"... on ...", "#  System device"}:         "topology is not looked at",
}

// comparable returns the lines of a block that must equal C's.
func comparable(b block) []line {
	var list []line
	for _, l := range b.lines {
		transport, _, onDevice := strings.Cut(b.title, " on ")
		_, here := otherwise[line{b.title, l.key}]
		_, any := otherwise[line{transport + " on ...", l.key}]
		_, all := otherwise[line{"... on ...", l.key}]
		if !here && !(onDevice && (any || all)) {
			list = append(list, l)
		}
	}
	return list
}

// TestStructureAsC compares -d with that of C's tool on this machine: the same devices and the same
// keys in the same order, and the same values if C's release has this layout.
func TestStructureAsC(t *testing.T) {
	cfg, err := config.Read("", "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	writeDomains(&b, domains(cfg, ""))
	ours := make(map[string]block)
	for _, o := range blocks(b.String()) {
		ours[o.title] = o
	}
	for _, tool := range cTools(t) {
		t.Run(tool, func(t *testing.T) {
			out, err := exec.Command(tool, "-d").Output()
			if err != nil {
				t.Fatal(err)
			}
			// Since 1.22 domains have more lines.
			recent := strings.Contains(string(out), "memory types:")
			compared := 0
			for _, c := range blocks(string(out)) {
				name, _, onDevice := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(c.title, "domain "), "manager of "), " on ")
				if !slices.Contains(builtIn, name) || !onDevice && !recent && c.lines[0].key != "# Connection manager" {
					continue
				}
				compared++
				o := ours[c.title]
				if recent {
					if diff := cmp.Diff(comparable(c), comparable(o), cmp.AllowUnexported(line{})); diff != "" {
						t.Errorf("%s (-C +ours):\n%s", c.title, diff)
					}
				} else if diff := cmp.Diff(c.keys(), o.keys()); diff != "" {
					t.Errorf("%s (-C +ours):\n%s", c.title, diff)
				}
			}
			if compared < 5 {
				t.Errorf("compared %d blocks of:\n%s", compared, out)
			}
		})
	}
}
