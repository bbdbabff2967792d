//go:build race

package rma

// raceEnabled says that the race detector, which allocates, is on.
const raceEnabled = true
