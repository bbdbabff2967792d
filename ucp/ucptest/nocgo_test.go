//go:build linux && !cgo

package ucptest

// cgoEnabled says that threads have stacks of the C library.
const cgoEnabled = false
