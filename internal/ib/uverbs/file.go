//go:build linux

package uverbs

import "syscall"

// File is an open uverbs device, /dev/infiniband/uverbsN. Any goroutine may use
// it, but for Close.
type File interface {
	// Name is what errors call the device.
	Name() string
	// Ioctl does RDMA_VERBS_IOCTL with the request in f, which it changes.
	Ioctl(f *Frame) syscall.Errno
	// Write does write(2) of one command.
	Write(b []byte) (int, syscall.Errno)
	// Mmap maps length bytes at an offset that the kernel has named.
	Mmap(offset uint64, length int) ([]byte, syscall.Errno)
	// Munmap gives back what Mmap returned.
	Munmap(b []byte) syscall.Errno
	// Close closes the device. The kernel destroys the objects that are left.
	Close() error
}
