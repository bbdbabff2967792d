//go:build linux

package ib

import (
	"sync"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// With RoCE the kernel asks the network for a neighbor before it makes an address handle
// or connects a queue pair, and the call takes a second if nobody answers (ib_addr of
// drivers/infiniband/core/addr.c). Where the application has said whom to connect to,
// that is its wait. Where a peer has, in a request, it could be anybody's address, and
// one after the other would keep a worker from everything else: such an endpoint is made
// only where the way is known (uct.OriginPeer), and the layer above has it sought before
// (uct.WaySeeker). The waiting is done by goroutines that end with it, a few for a
// device.

// hunt is the searches of a domain. The lock of the handles guards it.
type hunt struct {
	under  map[neighbor]*search
	queue  []*search // of those, which have still to begin
	begun  int
	all    sync.WaitGroup    // those that have begun
	silent map[neighbor]bool // those that there are handles to, and that have not answered since
}

// search is that for a neighbor.
type search struct {
	to   verbs.AHAttr
	wait []waiter
}

// waiter is who wants to know of the end of a search.
type waiter struct {
	i    *Iface
	done func(found bool)
}

// Bounds of what peers can cause.
const (
	maxSearches  = 16 // that are under way at once, each of which takes a thread
	maxStrangers = 8  // of these, those that anybody can cause without being connected
	maxQueued    = 256
	maxWaiters   = 1024 // for one
)

// Seek resolves a path without waiting, and reports whether it has started to. Then done is
// called once inside progress of the interface, unless that is closed before, with whether
// a path was found. Seek does not start if the path is known already, or if too many
// resolutions are in flight. Without done fewer may be in flight; then any goroutine may
// call Seek, otherwise that of the interface.
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

// over is told how a search has ended, starts the next one, and returns who is to know.
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

// missed notes that a neighbor has not answered. Lock held.
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

// abandon leaves the searches that have not begun, and waits for the others.
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
