//go:build linux

package ucm

import (
	"os"
	"syscall"
)

// File is an open connection manager, /dev/infiniband/rdma_cm: a queue of events
// and what they are about. Any goroutine may use it.
type File interface {
	// Name is what errors call it.
	Name() string
	// Command makes a command of package cmabi: in is its struct, and data what the
	// pointer in it points to, which Command sets; nil if it has none.
	Command(cmd uint32, in, data []byte) syscall.Errno
	// Poll is what becomes readable with an event. It is closed by Close.
	Poll() *os.File
	// Close closes it. The kernel destroys what is left.
	Close() error
}
