package netlink

import (
	"sync"
	"time"
)

// Recent is the routes as they were a moment ago: asking takes longer the more there are,
// and peers decide how often somebody wants to know. They are asked for again when sixteen times
// as long has passed as that took. The zero value is ready; any goroutine may use it.
type Recent struct {
	mu     sync.Mutex
	routes Routes                 // guarded by mu
	err    error                  // guarded by mu: of the last reading
	until  time.Duration          // guarded by mu: so long they are good
	begun  time.Time              // guarded by mu
	read   func() (Routes, error) // ReadRoutes where nil; tests have others
	now    func() time.Duration   // likewise
}

// Routes returns the routes, and why some are missing.
func (r *Recent) Routes() (Routes, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil {
		r.read, r.now, r.begun = ReadRoutes, r.clock, time.Now()
	}
	if began := r.now(); began >= r.until {
		routes, err := r.read()
		if err == nil || r.until == 0 || r.err != nil { // those that were good are better than none
			r.routes, r.err = routes, err
		}
		now := r.now()
		r.until = now + 16*(now-began)
	}
	return r.routes, r.err
}

func (r *Recent) clock() time.Duration { return time.Since(r.begun) }
