//go:build race

package event

// raceEnabled turns off allocation tests: the race detector allocates.
const raceEnabled = true
