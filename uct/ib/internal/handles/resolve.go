//go:build linux

package handles

import "github.com/ucx-go/ucx/uct/ib/verbs"

// resolution is the address resolution of one neighbor, and the callers to notify of the result.
type resolution struct {
	to     verbs.AHAttr
	notify []func(found bool)
}

// Limits on the resolutions that peers can cause.
const (
	maxBegun       = 16 // limit on resolutions in flight; each takes a thread
	maxUnconnected = 8  // the same limit for a request of an unconnected peer
	maxQueued      = 256
	maxNotified    = 1024 // limit on callers that wait for one resolution
)

// Known reports whether a path needs no address resolution.
func (c *Cache) Known(to verbs.AHAttr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known(neighborOf(&to))
}

// known is Known for a neighbor. Lock held.
func (c *Cache) known(n neighbor) bool { return c.handleCount[n] > 0 && !c.silent[n] }

// Resolve resolves a path without waiting, and reports whether it has started to. Then done is
// called once, on another goroutine, with the result. Resolve does not start if the path is known
// already, or if too many resolutions are in flight. A nil done is for requests of unconnected
// peers, for which the limit on resolutions in flight is lower.
func (c *Cache) Resolve(to verbs.AHAttr, done func(found bool)) bool {
	n := neighborOf(&to)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known(n) {
		return false
	}
	r := c.pending[n]
	if r == nil {
		if done == nil && c.inFlight >= maxUnconnected || len(c.queue) == maxQueued {
			return false
		}
		r = &resolution{to: to}
		c.pending[n] = r
		if c.inFlight < maxBegun {
			c.begin(r)
		} else {
			c.queue = append(c.queue, r)
		}
	}
	if done == nil {
		return true
	}
	if len(r.notify) == maxNotified {
		return false
	}
	r.notify = append(r.notify, done)
	return true
}

// begin starts a resolution. Lock held.
func (c *Cache) begin(r *resolution) {
	c.inFlight++
	c.all.Add(1)
	go func() {
		defer c.all.Done()
		ah, err := c.pd.CreateAH(&r.to)
		for _, done := range c.finish(r, ah, err) {
			done(err == nil)
		}
	}()
}

// finish completes a resolution: it records the result, starts the next queued resolution, and
// returns the callers to notify.
func (c *Cache) finish(r *resolution, ah *verbs.AH, err error) []func(bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := neighborOf(&r.to)
	switch {
	case err != nil:
		c.missed(n)
	case c.by[r.to] != nil:
		delete(c.silent, n)
		ah.Close()
	default:
		delete(c.silent, n)
		c.release(c.add(r.to, ah))
	}
	delete(c.pending, n)
	c.inFlight--
	if len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.begin(next)
	}
	return r.notify
}

// missed records that a neighbor has not answered. Lock held.
func (c *Cache) missed(n neighbor) {
	if c.handleCount[n] > 0 {
		c.silent[n] = true
	}
}

// Missed records that the neighbor of a path has not answered: the path no longer counts as known.
func (c *Cache) Missed(to verbs.AHAttr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed(neighborOf(&to))
}
