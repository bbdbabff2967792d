//go:build !amd64

package shm

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
)

// storeRelease publishes what was written before: whoever loads v from p
// atomically sees that too.
func storeRelease(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

// storeFence lets what was written before be seen before what is written
// afterwards, by whatever means.
func storeFence() { word.Fence() }
