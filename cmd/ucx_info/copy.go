package main

import (
	"fmt"
	"io"
	"time"

	"github.com/ucx-go/ucx/internal/arena"
)

// copyTime is the time for which each size is copied.
const copyTime = 500 * time.Millisecond

// writeCopyBandwidth prints the rate of memory copies (print_sys_info in C's tool).
func writeCopyBandwidth(w io.Writer, largest int, each time.Duration) error {
	fmt.Fprint(w, "# Using Go's copy() for size 0..inf\n# Memcpy bandwidth:\n")
	for size := 4096; size <= largest; size *= 2 {
		rate, err := copyBandwidth(size, each)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "#     %10d bytes: %.3f MB/s\n", size, rate/mbyte)
	}
	return nil
}

// copyBandwidth measures bytes per second for one size.
func copyBandwidth(size int, each time.Duration) (rate float64, err error) {
	var buf [2][]byte
	for i := range buf {
		if buf[i], err = arena.Map(size, arena.Options{Populate: true}); err != nil {
			return 0, err
		}
		defer arena.Unmap(buf[i])
	}
	copy(buf[0], buf[1])
	start, n := time.Now(), 0
	for {
		copy(buf[0], buf[1])
		n++
		if took := time.Since(start); took >= each {
			return float64(size) * float64(n) / took.Seconds(), nil
		}
	}
}
