//go:build !amd64 && !arm64

package cpu

// Relax does nothing here.
func Relax() {}
