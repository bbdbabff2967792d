//go:build !amd64 && !arm64

package cpu

import "sync/atomic"

var fence atomic.Uint32

// ToDevice orders memory between processors. There are no drivers of devices that
// need more for this architecture.
func ToDevice() { fence.Add(1) }

// FromDevice orders memory between processors, as ToDevice does.
func FromDevice() { fence.Add(1) }

// FlushWrites orders memory between processors, as ToDevice does.
func FlushWrites() { fence.Add(1) }

// Pause does nothing here.
func Pause() {}
