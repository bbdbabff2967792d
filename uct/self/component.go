package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// name is the name of the component, of its domain and of its transport.
const name = "self"

func init() { uct.Register(component{}) }

// component is the only uct.Component of the package.
type component struct{}

var _ uct.Component = component{}

// Name implements uct.Component. The name is unique among the components of a program.
func (component) Name() string { return name }

// Flags implements uct.Component. C UCX sets the flag of ComponentFlagRkeyPtr for self since
// 1.22.
func (component) Flags() uct.ComponentFlags { return uct.ComponentFlagRkeyPtr }

// Transports implements uct.Component: the domain has one transport, of the same name.
func (component) Transports() []string { return []string{name} }

// MemoryDomains implements uct.Component. self needs no hardware, so the list is never empty.
func (component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: name}}, nil
}

// OpenMD implements uct.Component. A name that MemoryDomains does not list matches
// ucs.ErrNoDevice. The settings are read here and not kept.
func (component) OpenMD(md string, cfg *config.Set) (uct.MemoryDomain, error) {
	if md != name {
		return nil, fmt.Errorf("self: no memory domain %q: %w", md, ucs.ErrNoDevice)
	}
	return openDomain(cfg)
}
