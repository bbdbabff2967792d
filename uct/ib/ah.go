//go:build linux

package ib

import (
	"errors"
	"sync"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// ahCache is the address handles of a domain. Creating a handle may need address resolution on
// the network. Unused handles therefore stay in the cache for later use, and no handle is
// created with the lock held, so that no goroutine waits for the neighbor of another one.
type ahCache struct {
	pd *verbs.PD

	mu   sync.Mutex // guards what follows
	by   map[verbs.AHAttr]*AH
	idle []*AH            // handles without users, the longest unused one first
	near map[neighbor]int // number of handles per neighbor
	hunt hunt
}

// AH is an address handle that endpoints share.
type AH struct {
	*verbs.AH
	cache *ahCache
	to    verbs.AHAttr
	users int // guarded by cache.mu
}

// neighbor identifies the neighbor that the kernel resolves for a path. Paths with the same
// port, local GID index and remote GID have the same neighbor.
type neighbor struct {
	port, index uint8 // of the local GID
	gid         verbs.GID
}

func neighborOf(to *verbs.AHAttr) neighbor { return neighbor{to.Port, to.SGIDIndex, to.DGID} }

// maxIdleAHs bounds the unused address handles, because peers decide how many are created.
const maxIdleAHs = 256

// AddressHandle returns the address handle of a path; AH.Done releases it. Any goroutine
// may call it. It waits about a second if address resolution gets no answer.
func (d *Domain) AddressHandle(to verbs.AHAttr) (*AH, error) {
	c := &d.handles
	c.mu.Lock()
	a := c.take(to)
	c.mu.Unlock()
	if a != nil {
		return a, nil
	}
	ah, err := c.pd.CreateAH(&to)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.take(to); a != nil { // another goroutine has added one meanwhile
		ah.Close() // an error is ignored: a device that is gone has closed the handle already
		return a, nil
	}
	return c.add(to, ah), nil
}

// take returns the handle of a path and adds a user to it; nil if there is none. Lock held.
func (c *ahCache) take(to verbs.AHAttr) *AH {
	a := c.by[to]
	if a == nil {
		return nil
	}
	if a.users == 0 {
		c.wake(a)
	}
	a.users++
	return a
}

// add puts a new handle with one user into the cache. Lock held.
func (c *ahCache) add(to verbs.AHAttr, ah *verbs.AH) *AH {
	if c.by == nil {
		c.by, c.near = make(map[verbs.AHAttr]*AH), make(map[neighbor]int)
	}
	a := &AH{AH: ah, cache: c, to: to, users: 1}
	c.by[to] = a
	c.near[neighborOf(&to)]++
	return a
}

// KnowsWay reports whether a path needs no address resolution: there is a handle to the
// same neighbor, and nothing since indicates that the neighbor stopped answering. Any
// goroutine may call it.
func (d *Domain) KnowsWay(to verbs.AHAttr) bool {
	c := &d.handles
	c.mu.Lock()
	defer c.mu.Unlock()
	n := neighborOf(&to)
	return c.near[n] > 0 && !c.hunt.silent[n]
}

// wake removes a from the list of handles without users. Lock held.
func (c *ahCache) wake(a *AH) {
	for i, x := range c.idle {
		if x == a {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return
		}
	}
}

// Done releases the handle. Datagrams that use it must have completed.
func (a *AH) Done() error {
	c := a.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release(a)
}

// release removes a user from a handle. A handle without users stays in the cache; beyond
// maxIdleAHs the longest unused one is closed. Lock held.
func (c *ahCache) release(a *AH) error {
	if a.users--; a.users > 0 {
		return nil
	}
	c.idle = append(c.idle, a)
	if len(c.idle) <= maxIdleAHs {
		return nil
	}
	old := c.idle[0]
	c.idle = c.idle[1:]
	delete(c.by, old.to)
	c.leave(neighborOf(&old.to))
	return old.AH.Close()
}

// leave counts down the handles of a neighbor, one of which is being closed. Lock held.
func (c *ahCache) leave(n neighbor) {
	if c.near[n]--; c.near[n] == 0 {
		delete(c.near, n)
		delete(c.hunt.silent, n)
	}
}

// close closes all handles. It waits for the searches in flight.
func (c *ahCache) close() (err error) {
	c.abandon()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.by {
		err = errors.Join(err, a.AH.Close())
	}
	c.by, c.idle, c.near = nil, nil, nil
	return err
}
