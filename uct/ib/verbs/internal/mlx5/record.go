//go:build linux

package mlx5

import (
	"sync"

	"github.com/ucx-go/ucx/internal/arena"
)

// record is a doorbell record: two big-endian words of memory from which a device reads how far a
// queue is filled or read.
type record = *[2]uint32

// records allocates doorbell records: several on a page, which the kernel pins once
// (providers/mlx5/dbrec.c). Each record has a cache line to itself.
type records struct {
	stride int // distance of records in bytes; set before the first call of get

	mu    sync.Mutex
	pages [][]byte // under mu
	spare []record // under mu: free records
}

// get returns a zeroed record.
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

// put takes back a record that no kernel object uses any more.
func (s *records) put(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, r)
}

// free unmaps all records.
func (s *records) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, page := range s.pages {
		arena.Unmap(page)
	}
	s.pages, s.spare = nil, nil
}

// mapQueue maps zeroed memory of whole pages for a queue of size bytes, nil for size 0.
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
