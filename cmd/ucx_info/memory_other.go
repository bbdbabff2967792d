//go:build !linux

package main

func peakMemory() int64 { return -1 }
