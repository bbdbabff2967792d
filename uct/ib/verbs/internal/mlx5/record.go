//go:build linux

package mlx5

import (
	"sync"

	"github.com/ucx-go/ucx/internal/arena"
)

// record is a doorbell record: two words of memory, big endian, in which a device finds
// how far a queue is filled.
type record = *[2]uint32

// records hands out records: several on a page, which the kernel pins once
// (providers/mlx5/dbrec.c). Each has a cache line to itself.
type records struct {
	stride int // bytes; set before the first is taken

	mu    sync.Mutex
	pages [][]byte // under mu
	spare []record // under mu
}

// get returns a record of zeros.
func (s *records) get() (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == 0 {
		page, err := arena.Map(arena.PageSize, arena.Options{DontFork: true})
		if err != nil {
			return nil, err
		}
		s.pages = append(s.pages, page)
		for off := len(page) - s.stride; off >= 0; off -= s.stride {
			s.spare = append(s.spare, recordAt(page, off))
		}
	}
	last := len(s.spare) - 1
	r := s.spare[last]
	s.spare = s.spare[:last]
	*r = [2]uint32{}
	return r, nil
}

// put takes back a record that no object in the kernel has any more.
func (s *records) put(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, r)
}

// free gives all memory back.
func (s *records) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, page := range s.pages {
		arena.Unmap(page)
	}
	s.pages, s.spare = nil, nil
}

// mapQueue maps zeroed memory of whole pages for a queue, or none for none.
func mapQueue(size int) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	return arena.Map(size, arena.Options{DontFork: true})
}

func unmapQueue(mem []byte) {
	if mem != nil {
		arena.Unmap(mem)
	}
}
