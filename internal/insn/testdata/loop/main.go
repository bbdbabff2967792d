// Loop is a program of which a test knows how many instructions it executes.
package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// passages calls mark, and then n times executes some instructions and calls mark.
func passages(n int)

// These are of assembly too. spin executes 2n+2 instructions; counter begins with rdtsc.
func mark()
func aside()
func spin(n int)
func counter() uint64

func init() { runtime.LockOSThread() }

func main() {
	run := map[string]func(){
		"passages": func() { passages(4) },
		"stack": func() {
			mark()
			for range 4 {
				grow(100)
				mark()
			}
		},
		"clock": func() {
			start, count := time.Now(), counter()
			spin(1000)
			counts, d := counter()-count, time.Since(start)
			if counts < 2000 || counts > 2100 || d < time.Microsecond || d > 3*time.Microsecond {
				println("some 2,000 instructions took", counts, "counts,", d.Nanoseconds(), "ns")
				os.Exit(1)
			}
			mark()
			mark()
		},
		"once":  mark,
		"never": func() {},
		"fails": func() { os.Exit(3) },
		"endless": func() {
			for {
				mark()
			}
		},
	}[os.Args[1]]
	if run == nil {
		println("no mode", os.Args[1])
		return
	}
	syscall.Getppid()
	run()
	syscall.Getppid()
}

// grow needs 256 bytes of stack for each of n calls. When it is called first the stack is too small.
//
//go:noinline
func grow(n int) byte {
	var room [256]byte
	if n > 0 {
		room[n%len(room)] = grow(n - 1)
	}
	return room[n%2]
}
