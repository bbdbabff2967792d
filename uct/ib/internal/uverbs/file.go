//go:build linux

package uverbs

import "syscall"

// File is an open uverbs device, /dev/infiniband/uverbsN. Any goroutine may use it, except for
// Close.
type File interface {
	// Name returns the name of the device for errors.
	Name() string
	// Ioctl executes RDMA_VERBS_IOCTL with the request in f, and changes f.
	Ioctl(f *Frame) syscall.Errno
	// Write executes write(2) of one command.
	Write(b []byte) (int, syscall.Errno)
	// Mmap maps length bytes at an offset that the kernel has returned.
	Mmap(offset uint64, length int) ([]byte, syscall.Errno)
	// Munmap unmaps memory that Mmap returned.
	Munmap(b []byte) syscall.Errno
	// Close closes the device. The kernel destroys the objects that are left.
	Close() error
}
