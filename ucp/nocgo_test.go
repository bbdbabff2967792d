//go:build !cgo

package ucp_test

// cgoEnabled says that threads have stacks of the C library.
const cgoEnabled = false
