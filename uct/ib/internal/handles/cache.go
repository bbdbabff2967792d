//go:build linux

package handles

import (
	"errors"
	"sync"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Cache holds the address handles of a protection domain, and the address resolutions in flight.
type Cache struct {
	pd *verbs.PD

	mu          sync.Mutex // guards the fields from here to begun
	by          map[verbs.AHAttr]*Handle
	idle        []*Handle         // handles without users, the longest unused one first
	handleCount map[neighbor]int  // number of cached handles per neighbor
	silent      map[neighbor]bool // neighbors that have handles, but have stopped answering since
	pending     map[neighbor]*resolution
	queue       []*resolution // resolutions in pending that have not begun
	inFlight    int

	all sync.WaitGroup // counts the resolutions that have begun
}

// New makes the cache of a protection domain.
func New(pd *verbs.PD) *Cache {
	return &Cache{
		pd: pd, by: make(map[verbs.AHAttr]*Handle), handleCount: make(map[neighbor]int),
		silent: make(map[neighbor]bool), pending: make(map[neighbor]*resolution),
	}
}

// Handle is an address handle that endpoints share.
type Handle struct {
	*verbs.AH
	cache *Cache
	to    verbs.AHAttr
	users int // guarded by cache.mu
}

// neighbor identifies the neighbor that the kernel resolves for a path. Paths with the same port,
// local GID index and remote GID have the same neighbor.
type neighbor struct {
	port, index uint8 // of the local GID
	gid         verbs.GID
}

func neighborOf(to *verbs.AHAttr) neighbor { return neighbor{to.Port, to.SGIDIndex, to.DGID} }

// maxIdle bounds the unused handles.
const maxIdle = 256

// Get returns the handle of a path; Handle.Done releases it. It waits about a second if address
// resolution gets no answer.
func (c *Cache) Get(to verbs.AHAttr) (*Handle, error) {
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
func (c *Cache) take(to verbs.AHAttr) *Handle {
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
func (c *Cache) add(to verbs.AHAttr, ah *verbs.AH) *Handle {
	a := &Handle{AH: ah, cache: c, to: to, users: 1}
	c.by[to] = a
	c.handleCount[neighborOf(&to)]++
	return a
}

// wake removes a handle from the list of handles without users. Lock held.
func (c *Cache) wake(a *Handle) {
	for i, x := range c.idle {
		if x == a {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return
		}
	}
}

// Done releases the handle. Datagrams that use it must have completed.
func (a *Handle) Done() error {
	c := a.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release(a)
}

// release removes a user from a handle. A handle without users stays in the cache; beyond maxIdle
// the longest unused one is closed. Lock held.
func (c *Cache) release(a *Handle) error {
	if a.users--; a.users > 0 {
		return nil
	}
	c.idle = append(c.idle, a)
	if len(c.idle) <= maxIdle {
		return nil
	}
	old := c.idle[0]
	c.idle = c.idle[1:]
	delete(c.by, old.to)
	n := neighborOf(&old.to)
	if c.handleCount[n]--; c.handleCount[n] == 0 {
		delete(c.handleCount, n)
		delete(c.silent, n)
	}
	return old.AH.Close()
}

// Close closes all handles. It drops the resolutions that have not begun, and waits for the others.
func (c *Cache) Close() (err error) {
	c.mu.Lock()
	c.queue = nil
	c.mu.Unlock()
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.by {
		err = errors.Join(err, a.AH.Close())
	}
	clear(c.by)
	clear(c.handleCount)
	c.idle = nil
	return err
}
