//go:build linux

package shm

// storeFence makes earlier stores visible before later stores, by whatever means memory is
// written. The processor keeps that order by itself.
func storeFence() {}
