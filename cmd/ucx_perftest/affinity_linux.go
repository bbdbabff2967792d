package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// setAffinity binds the process to CPUs. If the list is empty, and the scheduler may move the
// process between CPUs, it warns that results may vary.
func setAffinity(cpus []int, stderr io.Writer) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	if len(cpus) == 0 {
		if n := set.Count(); n > 2 {
			fmt.Fprintf(stderr, "ucx_perftest: not bound to CPUs (%d are allowed), results may vary; see -c\n", n)
		}
		return nil
	}
	set.Zero()
	for _, cpu := range cpus {
		set.Set(cpu)
		if !set.IsSet(cpu) {
			return fmt.Errorf("option -c: CPU %d is out of range", cpu)
		}
	}
	if err := bindThreads(&set); err != nil {
		return fmt.Errorf("option -c: %w", err)
	}
	runtime.GOMAXPROCS(set.Count())
	return nil
}

// bindThreads binds the existing threads; later threads inherit the binding. A thread that is not
// bound yet may create another one, so bindThreads repeats until it finds no new thread.
func bindThreads(set *unix.CPUSet) error {
	bound := make(map[int]bool)
	for {
		dir, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		again := false
		for _, e := range dir {
			tid, err := strconv.Atoi(e.Name())
			if err != nil || bound[tid] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("sched_setaffinity: %w", err)
			}
			bound[tid], again = true, true
		}
		if !again {
			return nil
		}
	}
}
