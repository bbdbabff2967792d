package main

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAffinity binds this process to one CPU during the test.
func TestAffinity(t *testing.T) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	procs := runtime.GOMAXPROCS(0)
	defer func() {
		if err := bindThreads(&before); err != nil {
			t.Error(err)
		}
		runtime.GOMAXPROCS(procs)
	}()
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	if err := setAffinity([]int{cpu}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("%d threads run Go code, want 1", n)
	}
	dir, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range dir {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &set); err == unix.ESRCH {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if set.Count() != 1 || !set.IsSet(cpu) {
			t.Errorf("thread %d may run on %d CPUs, want only CPU %d", tid, set.Count(), cpu)
		}
	}
}

func TestAffinityFailures(t *testing.T) {
	for _, cpu := range []int{1 << 20, 1023} { // not representable; unlikely to exist
		err := setAffinity([]int{cpu}, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "option -c: ") {
			t.Errorf("CPU %d: %v", cpu, err)
		}
	}
}
