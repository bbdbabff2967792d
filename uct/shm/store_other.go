//go:build linux && !amd64

package shm

import "github.com/ucx-go/ucx/internal/word"

// storeFence lets what was written before be seen before what is written
// afterwards, by whatever means.
func storeFence() { word.Fence() }
