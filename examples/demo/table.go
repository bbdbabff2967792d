package main

import (
	"fmt"
	"os"
	"time"
)

// table prints the results of one path as they come. On a terminal it says
// what is being measured meanwhile.
type table struct {
	terminal bool
}

// newTable prints the head of the n-th table of so many.
func newTable(title string, n, of int) table {
	fmt.Printf("\n%s (%d of %d)\n%10s %14s %18s %18s\n", title, n, of, "size", "latency", "bandwidth", "rate")
	info, err := os.Stdout.Stat()
	return table{err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// busy says that a size is being measured.
func (t table) busy(size int) {
	if t.terminal {
		fmt.Printf("%10s measuring…", sizeName(size))
	}
}

// row prints a result over what busy said.
func (t table) row(r result) {
	if t.terminal {
		fmt.Print("\r")
	}
	microseconds := float64(r.latency) / float64(time.Microsecond)
	fmt.Printf("%10s %11.2f µs %12.1f MiB/s %12.0f msg/s\n",
		sizeName(r.size), microseconds, r.rate*float64(r.size)/(1<<20), r.rate)
}

// sizeName prints a number of bytes the way people say it.
func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
