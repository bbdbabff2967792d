//go:build linux

package ib

import (
	"sync"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// With RoCE the kernel resolves the neighbor before it creates an address handle or connects
// a queue pair. The call takes a second if the neighbor does not answer (ib_addr of
// drivers/infiniband/core/addr.c). For a destination that the application names, the caller
// waits for the resolution. A destination that a peer names in a request could be any
// address, and a series of such requests would keep a worker from all other work. An endpoint
// for a peer's request is therefore made only if the path is known (uct.OriginPeer), and the
// layer above has the path resolved before (uct.WaySeeker). A goroutine waits for each
// resolution and ends with it; the number of such goroutines per device is bounded.

// hunt is the address resolutions of a domain. The lock of the address handles (ahCache.mu)
// guards hunt.
type hunt struct {
	under  map[neighbor]*search
	queue  []*search // those of under that have not begun
	begun  int
	all    sync.WaitGroup    // the searches that have begun
	silent map[neighbor]bool // neighbors that have handles, but have stopped answering since
}

// search is the address resolution of one neighbor.
type search struct {
	to   verbs.AHAttr
	wait []waiter
}

// waiter is an interface, and its callback for the result of a search.
type waiter struct {
	i    *Iface
	done func(found bool)
}

// Limits on the searches that peers can cause.
const (
	maxSearches  = 16 // searches in flight; each takes a thread
	maxStrangers = 8  // searches in flight at which a request of an unconnected peer starts none
	maxQueued    = 256
	maxWaiters   = 1024 // for one search
)

// Seek resolves a path without waiting, and reports whether it has started to. Then done is
// called once inside progress of the interface i, unless i is closed before; found reports
// whether the path was resolved. Seek does not start if the path is known already, or if too
// many resolutions are in flight. With a nil done the limit on resolutions in flight is lower,
// and any goroutine may call Seek; otherwise only the goroutine of i may.
func (d *Domain) Seek(to verbs.AHAttr, i *Iface, done func(found bool)) bool {
	c := &d.handles
	n := neighborOf(&to)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.near[n] > 0 && !c.hunt.silent[n] {
		return false
	}
	h := &c.hunt
	s := h.under[n]
	if s == nil {
		if done == nil && h.begun >= maxStrangers || len(h.queue) == maxQueued {
			return false
		}
		if h.under == nil {
			h.under = make(map[neighbor]*search)
		}
		s = &search{to: to}
		h.under[n] = s
		if h.begun < maxSearches {
			c.begin(d, s)
		} else {
			h.queue = append(h.queue, s)
		}
	}
	if done == nil {
		return true
	}
	if len(s.wait) == maxWaiters {
		return false
	}
	s.wait = append(s.wait, waiter{i, done})
	return true
}

// begin starts a search. Lock held.
func (c *ahCache) begin(d *Domain, s *search) {
	c.hunt.begun++
	c.hunt.all.Add(1)
	go func() {
		defer c.hunt.all.Done()
		ah, err := c.pd.CreateAH(&s.to)
		for _, w := range c.over(d, s, ah, err) {
			d.news.found(w, err == nil)
		}
	}()
}

// over completes a search: it records the result, starts the next queued search, and returns
// the waiters to notify.
func (c *ahCache) over(d *Domain, s *search, ah *verbs.AH, err error) []waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, n := &c.hunt, neighborOf(&s.to)
	switch {
	case err != nil:
		c.missed(n)
	case c.by[s.to] != nil:
		delete(h.silent, n)
		ah.Close()
	default:
		delete(h.silent, n)
		c.release(c.add(s.to, ah))
	}
	delete(h.under, n)
	h.begun--
	if len(h.queue) > 0 {
		next := h.queue[0]
		h.queue = h.queue[1:]
		c.begin(d, next)
	}
	return s.wait
}

// missed records that a neighbor has not answered. Lock held.
func (c *ahCache) missed(n neighbor) {
	if c.near[n] == 0 {
		return
	}
	if c.hunt.silent == nil {
		c.hunt.silent = make(map[neighbor]bool)
	}
	c.hunt.silent[n] = true
}

// Missed records that a neighbor has not answered: its path no longer counts as known.
func (d *Domain) Missed(to verbs.AHAttr) {
	c := &d.handles
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed(neighborOf(&to))
}

// abandon drops the searches that have not begun, and waits for the others.
func (c *ahCache) abandon() {
	c.mu.Lock()
	c.hunt.queue = nil
	c.mu.Unlock()
	c.hunt.all.Wait()
}

// SeekWay implements uct.WaySeeker.
func (i *Iface) SeekWay(p uct.ReachableParams, done func(found bool)) bool {
	if !i.Port.ethernet() {
		return false
	}
	a, err := ParseAddress(p.DeviceAddr)
	return err == nil && i.Reaches(&a) == nil && i.Domain.Seek(i.PathTo(&a, 0, 0).AH, i, done)
}
