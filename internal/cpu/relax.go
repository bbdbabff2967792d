//go:build amd64 || arm64

package cpu

// Relax lets the processor rest for a moment, some ten to hundred cycles: a loop that
// waits for another one's store takes less from the neighbours, and sees it sooner.
func Relax()
