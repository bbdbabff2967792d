//go:build linux && cgo

package ucptest

const cgoEnabled = true
