// Package ticks is a clock cheap enough to be read around every message: the
// CPU's own counter where it runs evenly (amd64 with an invariant TSC, or with a kernel
// that keeps time by it, arm64), the system's monotonic clock elsewhere. time.Now costs
// about as much as sending 8 bytes to oneself; this costs a fraction.
//
// Ticks of two goroutines can be compared; ticks of two processes cannot.
package ticks
