package sim

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// component implements uct.Component. It represents one host of a network.
type component struct {
	o Options
}

var _ uct.Component = (*component)(nil)

// New makes a component. The caller may pass it to uct.Register or use it directly.
func New(o Options) uct.Component { return &component{o: o.withDefaults()} }

// Name implements uct.Component.
func (c *component) Name() string { return c.o.Name }

// Flags implements uct.Component.
func (c *component) Flags() uct.ComponentFlags { return 0 }

// Transports implements uct.Component.
func (c *component) Transports() []string { return []string{c.o.Name} }

// MemoryDomains implements uct.Component.
func (c *component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	if !c.o.OwnDomains {
		return []uct.MDResource{{Name: c.o.Name}}, nil
	}
	list := make([]uct.MDResource, c.o.Devices)
	for i := range list {
		list[i].Name = c.o.deviceName(i)
	}
	return list, nil
}

// OpenMD implements uct.Component.
func (c *component) OpenMD(name string, _ *config.Set) (uct.MemoryDomain, error) {
	list, _ := c.MemoryDomains(nil)
	only := slices.Index(list, uct.MDResource{Name: name})
	if only < 0 {
		return nil, fmt.Errorf("sim: no memory domain %q: %w", name, ucs.ErrNoDevice)
	}
	o := c.o
	if o.Locate != nil {
		o.Place = o.Locate()
	}
	if err := o.claim(Domains, 1); err != nil {
		return nil, err
	}
	d := newDomain(&o)
	if o.OwnDomains {
		d.only, d.attr.Name = d.o.deviceName(only), name
	}
	if o.ValueKeys {
		return valued{domain: d}, nil
	}
	if o.Keyless {
		s := &scoped{domain: d}
		d.memory = s
		return s, nil
	}
	return d, nil
}
