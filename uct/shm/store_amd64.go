//go:build linux

package shm

// storeFence lets what was written before be seen before what is written
// afterwards, by whatever means. The processor does that by itself.
func storeFence() {}
