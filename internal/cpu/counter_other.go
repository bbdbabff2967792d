//go:build !amd64 && !arm64

package cpu

// Counter returns 0: there is no counter that Go code can read here.
func Counter() uint64 { return 0 }

// Moment returns 0, so a wait for the counter to advance by a Moment ends at once.
func Moment() uint64 { return 0 }
