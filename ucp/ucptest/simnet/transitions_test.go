//go:build simulate

package simnet

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/platform"
)

// machines are the state machines whose rules are counted (platform.Applied), with the files of their
// tables.
var machines = map[string]string{
	"connect": "../../internal/connect/table.go",
	"life":    "../../internal/life/table.go",
}

// rulesOf returns the rules of a table, as their source says.
func rulesOf(t *testing.T, file string) (list []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "var table = rules{\n")
	if !ok {
		t.Fatalf("%s has no table", file)
	}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "}" {
			break
		}
		if rule, _, ok := strings.Cut(line, "},"); ok && strings.HasPrefix(rule, "{") {
			list = append(list, rule+"}")
		}
	}
	return list
}

// unreachedFile lists the rules that no program applies, or few do, each with the reason behind " # ".
const unreachedFile = "testdata/unreached.list"

// seldom is the number of applications below which a rule is listed: on another processor, which copies
// in another way, the programs may not apply it.
const seldom = 20

var simUnreached = flag.Bool("sim.unreached", false, "write the rules that TestTransitions hardly reaches to "+unreachedFile)

// TestTransitions checks that programs apply all rules of the state machines, except those that
// unreachedFile explains.
func TestTransitions(t *testing.T) {
	reasons := make(map[string]string)
	text, _ := os.ReadFile(unreachedFile)
	for line := range strings.Lines(string(text)) {
		rule, reason, _ := strings.Cut(strings.TrimSpace(line), " # ")
		reasons[rule] = reason
	}
	clear(platform.Rules)
	for seed := range uint64(fixedPrograms) {
		if r := Generate(seed+1, AllKinds).Run(nil); r.Err != nil {
			t.Fatalf("seed %d: %v", seed+1, r.Err)
		}
	}
	files, _ := filepath.Glob("testdata/*.txt")
	for _, name := range files {
		if r := readProgram(t, name).Run(nil); r.Err != nil {
			t.Fatalf("%s: %v", name, r.Err)
		}
	}
	var lines []string
	for _, m := range slices.Sorted(maps.Keys(machines)) {
		rules, counts := rulesOf(t, machines[m]), platform.Rules[m]
		unreached := 0
		for i, r := range rules {
			key := m + " " + r
			n := 0
			if i < len(counts) {
				n = counts[i]
			}
			if n < seldom {
				lines = append(lines, fmt.Sprintf("%s # %s\n", key, cmp.Or(reasons[key], "rare")))
			}
			if n > 0 {
				continue
			}
			unreached++
			if _, ok := reasons[key]; !ok && !*simUnreached {
				t.Errorf("no program reaches rule %d of %s: %s", i, m, r)
			}
		}
		t.Logf("%s: %d of %d rules are reached", m, len(rules)-unreached, len(rules))
	}
	if *simUnreached {
		if err := os.WriteFile(unreachedFile, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
