// Package ticks is a clock cheap enough to read around every message: the CPU's counter where it
// runs evenly (amd64 with an invariant TSC, or with a kernel that uses the TSC as its clock;
// arm64), the system's monotonic clock elsewhere. time.Now costs about as much as sending 8 bytes
// to oneself; reading the counter costs a fraction of that.
//
// Ticks of two goroutines can be compared; ticks of two processes cannot.
package ticks
