package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// component is a host of a network.
type component struct {
	o Options
}

var _ uct.Component = (*component)(nil)

// New makes a component. It may be given to uct.Register or used as it is.
func New(o Options) uct.Component { return &component{o: o.withDefaults()} }

// Name implements uct.Component.
func (c *component) Name() string { return c.o.Name }

// Flags implements uct.Component.
func (c *component) Flags() uct.ComponentFlags { return 0 }

// MemoryDomains implements uct.Component.
func (c *component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: c.o.Name}}, nil
}

// OpenMD implements uct.Component.
func (c *component) OpenMD(name string, _ *config.Set) (uct.MemoryDomain, error) {
	if name != c.o.Name {
		return nil, fmt.Errorf("sim: no memory domain %q: %w", name, ucs.ErrNoDevice)
	}
	d := newDomain(&c.o)
	if c.o.ValueKeys {
		return valued{d}, nil
	}
	if c.o.Keyless {
		s := &scoped{domain: d}
		d.memory = s
		return s, nil
	}
	return d, nil
}
