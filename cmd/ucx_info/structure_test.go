package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs/config"
)

// cTools finds C's ucx_info: the one in the path and those of the installations
// in CPEERS.
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
		if os.Getenv("REQUIRE_TEST_TOOLS") != "" {
			t.Fatal("C's ucx_info is missing although the set-up script has run")
		}
		t.Skip("C's ucx_info is not installed (Debian package ucx-utils)")
	}
	return tools
}

// block is a part of the output of -d: the keys of one memory domain or of one
// interface, in order.
type block struct {
	title string // "domain tcp", "tcp on lo"
	keys  []string
}

// blocks takes the output of -d apart.
func blocks(text string) []block {
	var list []block
	transport := ""
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(strings.TrimPrefix(key, "#")) {
		case "":
			continue
		case "Memory domain", "Connection manager":
			list = append(list, block{title: "domain " + value})
		case "Transport":
			transport = value
			list = append(list, block{})
		case "Device":
			if transport == "self" {
				value = "memory" // with a number before 1.22
			}
			list[len(list)-1].title = transport + " on " + value
		}
		if len(list) > 0 {
			list[len(list)-1].keys = append(list[len(list)-1].keys, key)
		}
	}
	return list
}

// TestStructureAsC compares the keys of -d with those of C's tool on this
// machine: the same devices, the same keys, in the same order.
func TestStructureAsC(t *testing.T) {
	cfg, err := config.Read("", "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	writeDomains(&b, domains(cfg, ""))
	ours := make(map[string][]string)
	for _, o := range blocks(b.String()) {
		ours[o.title] = o.keys
	}
	for _, tool := range cTools(t) {
		t.Run(tool, func(t *testing.T) {
			out, err := exec.Command(tool, "-d").Output()
			if err != nil {
				t.Fatal(err)
			}
			// Domains have more lines since 1.22.
			compareDomains := strings.Contains(string(out), "memory types:")
			compared := 0
			for _, c := range blocks(string(out)) {
				name, _, onDevice := strings.Cut(c.title, " on ")
				if name != "self" && name != "tcp" && (onDevice || !compareDomains || !strings.HasSuffix(name, " self")) {
					continue
				}
				compared++
				if diff := cmp.Diff(c.keys, ours[c.title]); diff != "" {
					t.Errorf("%s (-C +ours):\n%s", c.title, diff)
				}
			}
			if compared < 2 {
				t.Errorf("compared %d blocks of:\n%s", compared, out)
			}
		})
	}
}
