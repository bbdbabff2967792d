//go:build race

package sys

// raceEnabled turns off allocation tests: the race detector allocates.
const raceEnabled = true
