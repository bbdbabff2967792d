//go:build linux && !cgo

package ucptest

// cgoEnabled means that threads have stacks of the C library.
const cgoEnabled = false
