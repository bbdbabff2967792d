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

// Name implements uct.Component.
func (component) Name() string { return name }

// Flags implements uct.Component. C UCX has had ComponentFlagRkeyPtr here since
// 1.22.
func (component) Flags() uct.ComponentFlags { return uct.ComponentFlagRkeyPtr }

// MemoryDomains implements uct.Component.
func (component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: name}}, nil
}

// OpenMD implements uct.Component.
func (component) OpenMD(md string, cfg *config.Set) (uct.MemoryDomain, error) {
	if md != name {
		return nil, fmt.Errorf("self: no memory domain %q: %w", md, ucs.ErrNoDevice)
	}
	return openDomain(cfg)
}
