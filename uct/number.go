package uct

import (
	"encoding/binary"
	"sync"

	"github.com/ucx-go/ucx/internal/platform"
)

// numbers are the numbers that UniqueNumber has returned in a process.
type numbers struct {
	sync.Mutex
	last    uint64 // the last number; guarded by the mutex
	started bool   // last is valid; guarded by the mutex
}

var unique platform.Local[numbers]

// UniqueNumber returns a number for the address of an iface. No other call in this process returns
// it, and hardly one in another process, because the numbers of a process begin with a random one.
// Any goroutine may call it.
func UniqueNumber() uint64 {
	n := unique.Get()
	n.Lock()
	defer n.Unlock()
	if !n.started {
		var seed [8]byte
		platform.Read(seed[:])
		n.last, n.started = binary.LittleEndian.Uint64(seed[:]), true
	}
	n.last++
	return n.last
}
