//go:build linux && !amd64

package shm

import "github.com/ucx-go/ucx/internal/word"

// storeFence makes earlier stores visible before later stores, by whatever means memory is
// written.
func storeFence() { word.Fence() }
