package main

import (
	"fmt"
	"os"
	"time"
)

// table prints the results of one path as they arrive. On a terminal it also shows which size is
// being measured.
type table struct {
	terminal bool
	rows     []result
}

// newTable prints the head of table number n of a total number of tables.
func newTable(title string, n, of int) *table {
	fmt.Printf("\n%s (%d of %d)\n%10s %14s %18s %18s\n", title, n, of, "size", "latency", "bandwidth", "rate")
	info, err := os.Stdout.Stat()
	return &table{terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// busy prints, on a terminal, that a size is being measured.
func (t *table) busy(size int) {
	if t.terminal {
		fmt.Printf("%10s measuring…", sizeName(size))
	}
}

// row prints a result. On a terminal it replaces the line that busy has printed.
func (t *table) row(r result) {
	if t.terminal {
		fmt.Print("\r")
	}
	t.rows = append(t.rows, r)
	fmt.Printf("%10s %14s %12.1f MiB/s %12.0f msg/s\n", sizeName(r.size), timeName(r.latency), r.bandwidth(), r.rate)
}

// bandwidth returns the bandwidth in MiB/s.
func (r result) bandwidth() float64 { return r.rate * float64(r.size) / (1 << 20) }

// timeName prints a time in the unit that fits it.
func timeName(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s ", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f µs", float64(d)/float64(time.Microsecond))
}

// summary says which path between processes is the fastest for short messages, and which for long
// ones.
func summary(done []measured) string {
	var short, long *measured
	for i := range done {
		m := &done[i]
		if m.alone() || len(m.rows) == 0 {
			continue
		}
		if short == nil || m.rows[0].latency < short.rows[0].latency {
			short = m
		}
		if long == nil || m.last().bandwidth() > long.last().bandwidth() {
			long = m
		}
	}
	if short == nil {
		return ""
	}
	return fmt.Sprintf("Between processes here: %s, %s for %s one way; %s, %.1f GiB/s for %s.",
		short.name, timeName(short.rows[0].latency), sizeName(short.rows[0].size),
		long.name, long.last().bandwidth()/1024, sizeName(long.last().size))
}

// measured is a path with its rows.
type measured struct {
	path
	rows []result
}

func (m *measured) last() result { return m.rows[len(m.rows)-1] }

// sizeName prints a number of bytes with a unit.
func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
