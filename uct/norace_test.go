//go:build !race

package uct

// raceEnabled says that the race detector, which allocates, is on.
const raceEnabled = false
