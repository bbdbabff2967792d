//go:build linux

package cma

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// name is the name of the component, of its memory domain and of its transport.
const name = "cma"

// device is the name of the only device, as in the other shared-memory transports
// (UCT_SM_DEVICE_NAME).
const device = "memory"

func init() { uct.Register(component{}) }

// component is the only uct.Component of the package.
type component struct{}

var _ uct.Component = component{}

// Name implements uct.Component.
func (component) Name() string { return name }

// Flags implements uct.Component.
func (component) Flags() uct.ComponentFlags { return 0 }

// Transports implements uct.Component.
func (component) Transports() []string { return []string{name} }

// MemoryDomains implements uct.Component. The domain is listed even if the machine does not allow
// cross-memory attach: the error of OpenMD then gives the reason.
func (component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: name}}, nil
}

// OpenMD implements uct.Component.
func (component) OpenMD(md string, cfg *config.Set) (uct.MemoryDomain, error) {
	if md != name {
		return nil, fmt.Errorf("cma: no memory domain %q: %w", md, ucs.ErrNoDevice)
	}
	if err := machine.usable(); err != nil {
		return nil, err
	}
	d := newDomain()
	var err error
	if d.users, err = host.LoadUsers(cfg); err != nil {
		return nil, fmt.Errorf("cma: %w", err)
	}
	return d, nil
}
