//go:build linux

package memory

import (
	"errors"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// chunk is registered memory that is cut into buffers.
type chunk struct {
	space *Space
	mem   []byte
	mr    *verbs.MR
}

// nextChunk makes a chunk for a pool that already has the chunks in the parameter has. The limit on
// the memory of pools (budget.go) does not apply to the first chunk of a pool.
func nextChunk(s *Space, has []chunk, size int) (chunk, error) {
	if len(has) > 0 && s.locks {
		if err := mayGrow(size); err != nil {
			return chunk{}, err
		}
	}
	return newChunk(s, size)
}

// newChunk maps and registers size bytes of memory.
func newChunk(s *Space, size int) (chunk, error) {
	mem, err := arena.Map(size, arena.Options{})
	if err != nil {
		return chunk{}, err
	}
	mr, err := s.pd.RegMR(mem, verbs.AccessLocalWrite|s.access)
	if err != nil {
		return chunk{}, errors.Join(err, arena.Unmap(mem))
	}
	s.regions.add(1)
	pooled.Add(int64(len(mem)))
	return chunk{s, mem, mr}, nil
}

// free deregisters and unmaps the memory.
func (c *chunk) free() error {
	c.space.regions.add(-1)
	pooled.Add(-int64(len(c.mem)))
	return errors.Join(c.space.Closed(c.mr.Close()), arena.Unmap(c.mem))
}

// stride returns the distance in bytes between buffers of the given size, in whole cache lines.
func stride(size int) int {
	const cacheLine = 64
	return (size + cacheLine - 1) &^ (cacheLine - 1)
}
