package netlink

import (
	"sync"
	"time"
)

// Recent caches the routes of the kernel: reading them takes longer the more routes there are, and
// peers control how often they are needed. It reads them again after sixteen times the duration of
// the last reading. The zero value is ready; any goroutine may use it.
type Recent struct {
	mu     sync.Mutex
	routes Routes                 // guarded by mu
	err    error                  // the error of the last reading; guarded by mu
	until  time.Duration          // when the routes expire; guarded by mu
	begun  time.Time              // the origin of the times that now returns; guarded by mu
	read   func() (Routes, error) // ReadRoutes if nil; tests replace it
	now    func() time.Duration   // the time since begun; tests replace it
}

// Routes returns the routes, and an error if some are missing.
func (r *Recent) Routes() (Routes, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil {
		r.read, r.now, r.begun = ReadRoutes, r.clock, time.Now()
	}
	if began := r.now(); began >= r.until {
		routes, err := r.read()
		if err == nil || r.until == 0 || r.err != nil { // a complete older list is better than an incomplete new one
			r.routes, r.err = routes, err
		}
		now := r.now()
		r.until = now + 16*(now-began)
	}
	return r.routes, r.err
}

func (r *Recent) clock() time.Duration { return time.Since(r.begun) }
