package fuzztest

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// FuzzMagic is a target that fails for a number that no seed has.
func FuzzMagic(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8}, uint16(7), "text", true)
	f.Add([]byte{}, uint16(0), "", false)
	Run(f, func(t *testing.T, b []byte, n uint16, s string, yes bool) {
		if os.Getenv("FUZZ_MAGIC") != "" && len(b) > 2 && n == 65535 && len(s) < 4 {
			t.Error("found")
		}
	})
}

func TestRunFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the tests again")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^FuzzMagic$", "-test.v")
	cmd.Env = append(os.Environ(), "FUZZ_MAGIC=1", "FUZZ_EXECUTIONS=100000")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "uint16(0xffff)") || !strings.Contains(string(out), "go test fuzz v1") {
		t.Errorf("%v: %s", err, out)
	}
	cmd = exec.Command(os.Args[0], "-test.run=^FuzzMagic$", "-test.v")
	cmd.Env = append(os.Environ(), "FUZZ_EXECUTIONS=1000")
	if out, err = cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "2000 inputs") {
		t.Errorf("%v: %s", err, out)
	}
}

// Every kind of argument can be changed, and changes of bytes neither touch their origin nor get
// too long.
func TestMutator(t *testing.T) {
	m := mutator{rng: rand.New(rand.NewPCG(1, 2))}
	corpus := [][]any{
		{[]byte("seed"), "text", true, byte(1), uint16(1), uint32(1), uint64(1), uint(1), int8(1), int16(1), int32(1), int64(1), 1},
		{[]byte{}, "", false, byte(0), uint16(0), uint32(0), uint64(0), uint(0), int8(0), int16(0), int32(0), int64(0), 0},
	}
	for range 100_000 {
		if b := m.input(corpus)[0].([]byte); len(b) > longest {
			t.Fatalf("%d bytes", len(b))
		}
	}
	if s := string(corpus[0][0].([]byte)); s != "seed" {
		t.Errorf("the seed is now %q", s)
	}
}
