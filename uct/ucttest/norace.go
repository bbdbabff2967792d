//go:build !race

package ucttest

// RaceEnabled says that the race detector is on: it allocates, so tests of
// allocations are skipped.
const RaceEnabled = false
