//go:build simulate

package simnet

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The flags of TestPrograms. Without them it runs a fixed range of seeds.
var (
	simSeed     = flag.Uint64("sim.seed", 0, "`first` seed; 0 draws one if -sim.time or -sim.programs is given")
	simTime     = flag.Duration("sim.time", 0, "how long to run `programs`")
	simPrograms = flag.Int("sim.programs", 0, "number of programs; 0 is as many as fit into -sim.time")
	simCPU      = flag.Duration("sim.cpu", 0, "how much `time` of the processor to use; a program that does not end ends the process")
	simProgress = flag.Bool("sim.progress", false, "print the seed of each program before it runs")
	simKinds    = flag.String("sim.kinds", "", "comma-separated `kinds` of steps; default all")
	simFaults   = flag.String("sim.faults", "", "comma-separated `kinds` of faults of programs that may lose something; default all")
	simOut      = flag.String("sim.out", "", "`directory` for programs that fail")
	simTrace    = flag.Bool("sim.trace", false, "print the trace of each program")
	simShrink   = flag.Int("sim.shrink", 600, "number of programs to run to shrink one that fails")
	simKeep     = flag.Int("sim.keep", 1, "number of failures after which to stop")
	simFile     = flag.String("sim.file", "", "`file` with a program to run, with its trace")
	simStacks   = flag.Bool("sim.stacks", false, "print all stacks after a failure of -sim.file")
	simCheck    = flag.Int("sim.check", 50, "run each nth program twice, and compare the digests; 0 is none")
)

// fixedPrograms is the number of programs of a run without flags.
const fixedPrograms = 300

// cpuTime returns the time of the processor that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestPrograms runs programs that are made from seeds.
func TestPrograms(t *testing.T) {
	seed, count := *simSeed, *simPrograms
	switch {
	case *simTime == 0 && *simCPU == 0 && count == 0 && seed == 0:
		seed, count = 1, fixedPrograms
	case *simTime == 0 && *simCPU == 0 && count == 0:
		count = 1
	case seed == 0:
		seed = rand.Uint64() >> 16
	}
	kinds := AllKinds
	if *simKinds != "" {
		kinds = strings.Split(*simKinds, ",")
	}
	if *simFaults != "" {
		faultMix = strings.Split(*simFaults, ",")
	}
	begin, cpu := time.Now(), cpuTime()
	if *simCPU > 0 {
		go endHang(cpu + *simCPU)
	}
	var messages, operations, programs, failures, faults int
	var virtual time.Duration
	var steps uint64
	for k := 0; (count == 0 || k < count) && (*simTime == 0 || time.Since(begin) < *simTime) && (*simCPU == 0 || cpuTime()-cpu < *simCPU); k++ {
		p := Generate(seed+uint64(k), kinds)
		if *simProgress {
			fmt.Println("seed", p.Seed)
		}
		r := p.Run(out(t))
		programs++
		messages += r.Messages
		operations += r.Operations
		virtual += r.Virtual
		steps += r.Steps
		faults += r.Faults
		if r.Err == nil && *simCheck > 0 && k%*simCheck == 0 {
			if again := p.Run(nil); again.Digest != r.Digest {
				t.Errorf("two runs of seed %d differ", p.Seed)
			}
		}
		if r.Err != nil {
			report(t, p, r.Err)
			if failures++; failures >= *simKeep {
				break
			}
		}
	}
	cpu = cpuTime() - cpu
	t.Logf("from seed %d: %d programs, %d operations, %d messages, %d faults, %d steps of the world, %v of virtual time, %v of the processor: %.0f messages a second",
		seed, programs, operations, messages, faults, steps, virtual.Round(time.Second), cpu.Round(time.Millisecond), float64(messages)/cpu.Seconds())
}

// endHang ends the process if a program goes on for longer than hangTime after the process has used limit
// of the processor, or if nothing happens for that time.
func endHang(limit time.Duration) {
	const hangTime = 2 * time.Minute
	last, since := cpuTime(), time.Now()
	for {
		time.Sleep(time.Second)
		now := cpuTime()
		if now-last > 200*time.Millisecond {
			last, since = now, time.Now()
		}
		if now > limit+hangTime || time.Since(since) > hangTime {
			panic("a program does not end")
		}
	}
}

// out returns where the trace goes, nil for nowhere.
func out(t *testing.T) io.Writer {
	if *simTrace {
		return os.Stdout
	}
	return nil
}

// report shrinks a program that has failed, and prints it.
func report(t *testing.T, p *Program, err error) {
	t.Errorf("seed %d: %v", p.Seed, err)
	if *simShrink > 0 {
		p = Shrink(p, err, *simShrink)
	}
	var trace lastLines
	r := p.Run(&trace)
	t.Logf("the last lines of the trace:\n%s", &trace)
	t.Logf("the shrunk program, which fails with: %v\n%s", r.Err, p)
	if *simOut != "" {
		name := filepath.Join(*simOut, fmt.Sprintf("seed-%d.txt", p.Seed))
		text := fmt.Appendf(nil, "# %s\n%s", strings.ReplaceAll(fmt.Sprint(r.Err), "\n", "\n# "), p)
		err := os.MkdirAll(*simOut, 0o777)
		if err == nil {
			err = os.WriteFile(name, text, 0o666)
		}
		if err != nil {
			t.Error(err)
			return
		}
		t.Logf("kept as %s", name)
	}
}

// lastLines keeps the last lines that are written to it.
type lastLines struct{ lines []string }

func (l *lastLines) Write(b []byte) (int, error) {
	if l.lines = append(l.lines, string(b)); len(l.lines) > 200 {
		l.lines = slices.Delete(l.lines, 0, 100)
	}
	return len(b), nil
}

func (l *lastLines) String() string { return strings.Join(l.lines[max(0, len(l.lines)-100):], "") }

// readProgram reads the program in a file.
func readProgram(t *testing.T, name string) *Program {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := ReadProgram(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

// TestKept runs the programs that have failed once.
func TestKept(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			if r := readProgram(t, name).Run(out(t)); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// TestFile runs the program of -sim.file and prints its trace.
func TestFile(t *testing.T) {
	if *simFile == "" {
		t.Skip("no -sim.file")
	}
	p := readProgram(t, *simFile)
	if *simStacks {
		onFailure = func() {
			b := make([]byte, 1<<20)
			t.Logf("%s", b[:runtime.Stack(b, true)])
		}
	}
	if r := p.Run(os.Stdout); r.Err != nil {
		t.Error(r.Err)
	}
}

// TestProgramText reads the text of programs.
func TestProgramText(t *testing.T) {
	for seed := range uint64(20) {
		p := Generate(seed, AllKinds)
		q, err := ReadProgram(strings.NewReader(p.String()))
		if err != nil {
			t.Fatal(err)
		}
		if q.String() != p.String() {
			t.Errorf("the text of seed %d changes when it is read", seed)
		}
	}
}
