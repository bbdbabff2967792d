//go:build amd64 || arm64

package cpu

// Counter reads the processor's counter of time, which costs some ten cycles and no
// call of the system. Nothing is promised of it: in virtual machines it may run at any
// rate, and on another processor be another one.
func Counter() uint64
