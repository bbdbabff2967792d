//go:build amd64 || arm64

package cpu

// Relax pauses the processor for some ten to hundred cycles: a loop that waits for a store of
// another processor then takes fewer resources from the sibling hyperthread, and sees the store
// sooner.
func Relax()
