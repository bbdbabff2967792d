package ucttest

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// NoLeaks fails the test if it leaves goroutines running or descriptors open at its end. Call
// it before anything is opened.
func NoLeaks(t testing.TB) {
	t.Helper()
	startPoller()
	fds := openFDs(t)
	before := goroutines()
	t.Cleanup(func() {
		leaked := func() (stacks []string) {
			for id, stack := range goroutines() {
				if _, ok := before[id]; !ok {
					stacks = append(stacks, stack)
				}
			}
			return stacks
		}
		stacks := leaked()
		for i := 0; i < spinRounds && len(stacks) > 0; i++ {
			runtime.Gosched() // a goroutine that is ending may need some time
			stacks = leaked()
		}
		if len(stacks) > 0 {
			t.Errorf("%d goroutines left behind:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
		}
		for fd, name := range openFDs(t) {
			if was, ok := fds[fd]; !ok {
				t.Errorf("descriptor %d left open: %s", fd, name)
			} else if was != name {
				t.Errorf("descriptor %d is %s, was %s", fd, name, was)
			}
		}
	})
}

// goroutines returns the stacks of all goroutines by number, except those that package testing
// created.
func goroutines() map[string]string {
	buf := make([]byte, 1<<15)
	n := runtime.Stack(buf, true)
	for n == len(buf) { // the stacks may be truncated
		buf = make([]byte, 2*n)
		n = runtime.Stack(buf, true)
	}
	buf = buf[:n]
	stacks := make(map[string]string)
	for _, stack := range strings.Split(string(buf), "\n\n") {
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		if !strings.Contains(stack, "created by testing.") {
			stacks[id] = stack
		}
	}
	return stacks
}

// openFDs returns the open descriptors of the process and the names of their files.
func openFDs(t testing.TB) map[int]string {
	t.Helper()
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("listing descriptors: %v", err)
	}
	fds := make(map[int]string)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The descriptor of the listing itself is closed by now.
		if name, err := os.Readlink(dir + "/" + e.Name()); err == nil {
			fds[fd] = name
		}
	}
	return fds
}

// startPoller makes the Go runtime open the descriptors of its network poller, which stay open.
var startPoller = sync.OnceFunc(func() {
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
})
