//go:build linux

package ib

import (
	"errors"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// chunk is registered memory that is cut into buffers.
type chunk struct {
	domain *Domain
	mem    []byte
	mr     *verbs.MR
}

// nextChunk is newChunk for a pool that has the chunks in has. The limit on the memory of pools
// (budget.go) does not apply to the first chunk of a pool.
func nextChunk(d *Domain, has []chunk, size int) (chunk, error) {
	if len(has) > 0 && locksMemory(d.source) {
		if err := mayGrow(size); err != nil {
			return chunk{}, err
		}
	}
	return newChunk(d, size)
}

// newChunk maps and registers size bytes of memory.
func newChunk(d *Domain, size int) (chunk, error) {
	mem, err := arena.Map(size, arena.Options{})
	if err != nil {
		return chunk{}, err
	}
	mr, err := d.pd.RegMR(mem, verbs.AccessLocalWrite|d.access)
	if err != nil {
		return chunk{}, errors.Join(err, arena.Unmap(mem))
	}
	d.regions.add(1)
	pooled.Add(int64(len(mem)))
	return chunk{d, mem, mr}, nil
}

// free deregisters and unmaps the memory.
func (c *chunk) free() error {
	c.domain.regions.add(-1)
	pooled.Add(-int64(len(c.mem)))
	return errors.Join(c.domain.Closed(c.mr.Close()), arena.Unmap(c.mem))
}

// stride returns the distance between buffers of that size: whole cache lines.
func stride(size int) int {
	const cacheLine = 64
	return (size + cacheLine - 1) &^ (cacheLine - 1)
}
