//go:build linux

package ucm

import (
	"os"
	"syscall"
)

// File is an open connection manager, /dev/infiniband/rdma_cm: a queue of events, and the IDs that
// the events belong to. Any goroutine may use it.
type File interface {
	// Name returns the name of the device for errors.
	Name() string
	// Command executes a command of package cmabi. in is its struct. data is the memory that the
	// pointer in the struct points to, nil if it has none; Command sets the pointer.
	Command(cmd uint32, in, data []byte) syscall.Errno
	// Poll returns the file that becomes readable with an event. Close closes it.
	Poll() *os.File
	// Close closes the connection manager. The kernel destroys the IDs that are left.
	Close() error
}
