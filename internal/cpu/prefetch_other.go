//go:build !amd64 && !arm64

package cpu

// PrefetchWrite does nothing here.
func PrefetchWrite(uintptr) {}
