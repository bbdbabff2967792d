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
	"time"

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

var (
	simUnreached = flag.Bool("sim.unreached", false, "write the rules that TestTransitions hardly reaches to "+unreachedFile)
	simReach     = flag.Bool("sim.reach", false, "keep programs that apply rules that no other program applies")
)

// applyRules runs the programs of the fixed seeds and those that are kept, and returns how often they apply each
// rule of each machine.
func applyRules(t *testing.T) map[string][]int {
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
	return maps.Clone(platform.Rules)
}

// TestReach runs programs for -sim.time, and keeps one for each rule that the others do not apply.
func TestReach(t *testing.T) {
	if !*simReach {
		t.Skip("no -sim.reach")
	}
	reached := make(map[string]bool)
	rules := make(map[string][]string)
	applied := applyRules(t)
	for m, file := range machines {
		rules[m] = rulesOf(t, file)
		for i, n := range applied[m] {
			reached[rules[m][i]] = n > 0
		}
	}
	for seed, begin := *simSeed, time.Now(); time.Since(begin) < *simTime; seed++ {
		p := Generate(seed, AllKinds)
		clear(platform.Rules)
		if r := p.Run(nil); r.Err != nil {
			t.Fatalf("seed %d: %v", seed, r.Err)
		}
		for m, counts := range maps.Clone(platform.Rules) {
			for i, n := range counts {
				if rule := rules[m][i]; n > 0 && !reached[rule] {
					reached[rule] = true
					keepReached(t, p, m, i, rule)
				}
			}
		}
	}
}

// keepReached makes a program that applies a rule smaller, and keeps it.
func keepReached(t *testing.T, p *Program, machine string, i int, rule string) {
	clear(platform.Rules)
	p = shrinkTo(p, *simShrink, func(r Result) bool {
		counts := platform.Rules[machine]
		applies := r.Err == nil && i < len(counts) && counts[i] > 0
		clear(platform.Rules)
		return applies
	})
	name := fmt.Sprintf("testdata/reaches-%s-%d.txt", machine, i)
	if err := os.WriteFile(name, fmt.Appendf(nil, "# It applies the rule of %s: %s\n%s", machine, rule, p), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %s", p.Seed, name)
}

// TestTransitions checks that programs apply all rules of the state machines, except those that
// unreachedFile explains.
func TestTransitions(t *testing.T) {
	reasons := make(map[string]string)
	text, _ := os.ReadFile(unreachedFile)
	for line := range strings.Lines(string(text)) {
		rule, reason, _ := strings.Cut(strings.TrimSpace(line), " # ")
		reasons[rule] = reason
	}
	applied := applyRules(t)
	var lines []string
	for _, m := range slices.Sorted(maps.Keys(machines)) {
		rules, counts := rulesOf(t, machines[m]), applied[m]
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
