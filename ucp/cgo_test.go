//go:build cgo

package ucp_test

const cgoEnabled = true
