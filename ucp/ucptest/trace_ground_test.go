package ucptest

import (
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// mapping is a component whose domains map each other's allocations, as those of
// shared memory do. All are of this process, so the mapping is the memory itself.
type mapping struct {
	uct.Component
	allocated map[uct.MemHandle][]byte
}

// simulateMapped registers a simulated transport with such memory.
func simulateMapped(name string) transport {
	s := &simulated{net: sim.NewNetwork()}
	s.component = mapping{
		Component: sim.New(sim.Options{Name: name, Network: s.net, DomainAttr: func(a *uct.MDAttr) {
			a.Flags |= uct.MDFlagRkeyPtr
		}}),
		allocated: make(map[uct.MemHandle][]byte),
	}
	uct.Register(s.component)
	return transport{name: name, settings: []setting{{"TLS", name}}, sim: s}
}

// OpenMD implements uct.Component.
func (m mapping) OpenMD(name string, set *config.Set) (uct.MemoryDomain, error) {
	d, err := m.Component.OpenMD(name, set)
	return mappingDomain{d, m}, err
}

// mappingDomain is one of its domains.
type mappingDomain struct {
	uct.MemoryDomain
	of mapping
}

// Alloc implements uct.MemoryDomain.
func (d mappingDomain) Alloc(p uct.AllocParams) (uct.MemHandle, error) {
	h, err := d.MemoryDomain.Alloc(p)
	if err == nil {
		d.of.allocated[h] = h.Bytes()
	}
	return h, err
}

// Deregister implements uct.MemoryDomain.
func (d mappingDomain) Deregister(h uct.MemHandle) error {
	delete(d.of.allocated, h)
	return d.MemoryDomain.Deregister(h)
}

// RkeyPtr implements uct.MemoryDomain.
func (d mappingDomain) RkeyPtr(_ *uct.Rkey, addr uint64, n int) ([]byte, error) {
	for _, b := range d.of.allocated {
		if base := addressOf(b); addr >= base && addr+uint64(n) <= base+uint64(len(b)) {
			off := addr - base
			return b[off : off+uint64(n) : off+uint64(n)], nil
		}
	}
	return nil, ucs.ErrInvalidAddr
}

// keepaliveProtocol is what asks whether a peer is there. Its messages come by the
// clock, so only those that a command waits for are in a trace.
const keepaliveProtocol = "keepalive"

// keepalive SIDE progresses a side until it asks whether its peer is there.
func (c *conversation) keepalive(a *arguments) {
	c.waiting = c.speakerAt(a.next())
	for start := time.Now(); c.waiting != nil; {
		if s := c.waiting; c.progress(s) == 0 {
			c.rig.sleep(1)
		}
		if time.Since(start) > time.Minute {
			c.t.Fatalf("%q: nothing is asked", a.line)
		}
	}
}

// awaits reports whether a side's keepalive is waited for, which ends that.
func (c *conversation) awaits(name string) bool {
	if c.waiting == nil || c.waiting.name != name {
		return false
	}
	c.waiting = nil
	return true
}
