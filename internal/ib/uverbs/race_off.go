//go:build !race

package uverbs

// RaceSent is for the race detector.
func RaceSent() {}

// RaceReceived is for the race detector.
func RaceReceived() {}
