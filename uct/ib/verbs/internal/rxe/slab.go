//go:build linux

package rxe

import (
	"sync"

	"github.com/ucx-go/ucx/internal/arena"
)

// cellSize is the size of a cell in bytes. It is enough for the command of a doorbell with its
// response, and for the location of a ring.
const cellSize = 64

// slab allocates cells: pieces of memory of cellSize bytes that never move.
type slab struct {
	mu    sync.Mutex
	pages [][]byte // under mu
	spare [][]byte // under mu: free cells
}

// get returns a zeroed cell.
func (s *slab) get() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == 0 {
		page, err := arena.Map(arena.PageSize, arena.Options{})
		if err != nil {
			return nil, err
		}
		s.pages = append(s.pages, page)
		for off := 0; off+cellSize <= len(page); off += cellSize {
			s.spare = append(s.spare, page[off:off+cellSize:off+cellSize])
		}
	}
	cell := s.spare[len(s.spare)-1]
	s.spare = s.spare[:len(s.spare)-1]
	clear(cell)
	return cell, nil
}

func (s *slab) put(cell []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, cell)
}

// free unmaps all cells.
func (s *slab) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, page := range s.pages {
		arena.Unmap(page)
	}
	s.pages, s.spare = nil, nil
}
