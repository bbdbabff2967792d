//go:build linux

package tcp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// componentName is the name of the component, of its memory domain and of its
// transport.
const componentName = "tcp"

type component struct{}

func init() { uct.Register(component{}) }

// Name implements uct.Component.
func (component) Name() string { return componentName }

// Flags implements uct.Component.
func (component) Flags() uct.ComponentFlags { return uct.ComponentFlagCM }

// MemoryDomains implements uct.Component.
func (component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: componentName}}, nil
}

// OpenMD implements uct.Component.
func (component) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	if name != componentName {
		return nil, fmt.Errorf("tcp: no memory domain %q: %w", name, ucs.ErrNoDevice)
	}
	opts, err := loadMDOptions(cfg)
	if err != nil {
		return nil, err
	}
	return newDomain(opts), nil
}
