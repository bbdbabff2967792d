//go:build linux

package ib

import (
	"errors"
	"sync"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// ahCache is the address handles of a domain. Making one may ask the network for a
// neighbor, so those that nobody uses any more stay a while for the next one who wants
// to go there.
type ahCache struct {
	pd *verbs.PD

	mu   sync.Mutex
	by   map[verbs.AHAttr]*AH // guarded by mu
	idle []*AH                // guarded by mu: those without users, the first for the longest time
}

// AH is an address handle that endpoints share.
type AH struct {
	*verbs.AH
	cache *ahCache
	to    verbs.AHAttr
	users int // guarded by cache.mu
}

// maxIdleAHs bounds the address handles that nobody uses: peers decide how many there
// are to be.
const maxIdleAHs = 256

// AddressHandle returns the address handle for a way, to be given back by AH.Done. Any
// goroutine may call it.
func (d *Domain) AddressHandle(to verbs.AHAttr) (*AH, error) {
	c := &d.handles
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.by[to]; a != nil {
		if a.users == 0 {
			c.wake(a)
		}
		a.users++
		return a, nil
	}
	ah, err := c.pd.CreateAH(&to)
	if err != nil {
		return nil, err
	}
	a := &AH{AH: ah, cache: c, to: to, users: 1}
	if c.by == nil {
		c.by = make(map[verbs.AHAttr]*AH)
	}
	c.by[to] = a
	return a, nil
}

// KnowsWay reports whether AddressHandle need not ask anybody for a way. While it asks for
// another one that is not known. Any goroutine may call it.
func (d *Domain) KnowsWay(to verbs.AHAttr) bool {
	c := &d.handles
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	return c.by[to] != nil
}

// wake takes a out of the list of those without users. Lock held.
func (c *ahCache) wake(a *AH) {
	for i, x := range c.idle {
		if x == a {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return
		}
	}
}

// Done gives the handle back. Datagrams by it must have completed.
func (a *AH) Done() error {
	c := a.cache
	c.mu.Lock()
	defer c.mu.Unlock()
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
	return old.AH.Close()
}

// close closes all handles.
func (c *ahCache) close() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.by {
		err = errors.Join(err, a.AH.Close())
	}
	c.by, c.idle = nil, nil
	return err
}
