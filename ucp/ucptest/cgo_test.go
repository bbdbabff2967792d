//go:build cgo

package ucptest

const cgoEnabled = true
