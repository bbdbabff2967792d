package account

import (
	"sync"

	"github.com/ucx-go/ucx/internal/platform"
)

// The limits apply to all workers of the process together. A worker that needs room asks its
// siblings, the other workers of the process, to evict holders.

// siblings are the tables of the workers of a process.
type siblings struct {
	sync.Mutex
	tables map[*Table]struct{}
}

var family platform.Local[siblings]

// Join adds the table to those whose workers other workers can ask to evict holders. Leave removes
// the table.
func (t *Table) Join() {
	s := family.Get()
	s.Lock()
	defer s.Unlock()
	if s.tables == nil {
		s.tables = make(map[*Table]struct{})
	}
	s.tables[t] = struct{}{}
}

// Leave undoes Join.
func (t *Table) Leave() {
	s := family.Get()
	s.Lock()
	delete(s.tables, t)
	s.Unlock()
}

// askSiblings asks the other workers to evict holders of the accounts that hold most (Reclaim). It
// returns the number of the other workers.
func (t *Table) askSiblings() int {
	s := family.Get()
	s.Lock()
	defer s.Unlock()
	n := 0
	for f := range s.tables {
		if f != t {
			n++
			f.host.Wake()
		}
	}
	return n
}

// AskForRoom asks the other workers to close endpoints, because a transport has run out of a
// resource that endpoints use. Their RoomWanted then returns true.
func (t *Table) AskForRoom() {
	s := family.Get()
	s.Lock()
	for f := range s.tables {
		if f != t {
			f.roomWanted.Store(true)
		}
	}
	s.Unlock()
	t.askSiblings()
}

// RoomWanted reports whether another worker has called AskForRoom since the last call.
func (t *Table) RoomWanted() bool { return t.roomWanted.Swap(false) }
