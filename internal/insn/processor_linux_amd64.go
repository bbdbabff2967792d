package insn

import (
	"sync"

	"golang.org/x/sys/unix"
)

// taken is how many stepped threads are kept on each processor.
var taken struct {
	sync.Mutex
	cpus map[int]int
}

// shareProcessor keeps a stopped thread and this one, its tracer, on one processor until release.
// They wake each other for each step, which takes much longer between two processors. Without the
// right to do so they stay as they are.
func shareProcessor(tid int) (release func()) {
	var old unix.CPUSet
	if unix.SchedGetaffinity(0, &old) != nil {
		return func() {}
	}
	cpu := takeProcessor(&old)
	var one unix.CPUSet
	one.Set(cpu)
	_ = unix.SchedSetaffinity(0, &one)
	_ = unix.SchedSetaffinity(tid, &one)
	return func() {
		_ = unix.SchedSetaffinity(0, &old)
		_ = unix.SchedSetaffinity(tid, &old)
		taken.Lock()
		defer taken.Unlock()
		taken.cpus[cpu]--
	}
}

// takeProcessor chooses a processor of a set: one that has the fewest stepped threads.
func takeProcessor(set *unix.CPUSet) int {
	taken.Lock()
	defer taken.Unlock()
	if taken.cpus == nil {
		taken.cpus = make(map[int]int)
	}
	best := -1
	for cpu := range 64 * len(set) {
		if set.IsSet(cpu) && (best < 0 || taken.cpus[cpu] < taken.cpus[best]) {
			best = cpu
		}
	}
	taken.cpus[best]++
	return best
}
