//go:build linux

package cm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// componentName is the name of the component, as C UCX has it.
const componentName = "rdmacm"

// Source gives a component access to the kernel.
type Source interface {
	// Channel opens the connection manager.
	Channel() (*rdmacm.EventChannel, error)

	// Devices lists the devices, with their GUIDs.
	Devices() ([]verbs.Device, error)

	// Open opens a device.
	Open(d *verbs.Device) (*verbs.Context, error)
}

// component implements uct.ConnManagerComponent. All its managers share the open devices.
type component struct {
	source  Source
	devices devices
}

var _ uct.ConnManagerComponent = (*component)(nil)

func init() { uct.Register(NewComponent(system{})) }

// NewComponent makes a component over another Source than the system's kernel, under the
// same name, for tests.
func NewComponent(s Source) uct.ConnManagerComponent {
	return &component{source: s, devices: devices{source: s}}
}

// system is the kernel of this machine.
type system struct{}

func (system) Channel() (*rdmacm.EventChannel, error)       { return rdmacm.NewEventChannel() }
func (system) Devices() ([]verbs.Device, error)             { return verbs.OutlineDevices("") }
func (system) Open(d *verbs.Device) (*verbs.Context, error) { return d.Open() }

// Name implements uct.Component.
func (c *component) Name() string { return componentName }

// Flags implements uct.Component.
func (c *component) Flags() uct.ComponentFlags { return uct.ComponentFlagCM }

// Transports implements uct.Component: there are none.
func (c *component) Transports() []string { return nil }

// MemoryDomains implements uct.Component: there are none.
func (c *component) MemoryDomains(*config.Set) ([]uct.MDResource, error) { return nil, nil }

// OpenMD implements uct.Component.
func (c *component) OpenMD(name string, _ *config.Set) (uct.MemoryDomain, error) {
	return nil, fmt.Errorf("rdmacm: no memory domain %q, the component has none: %w", name, ucs.ErrNoDevice)
}

// OpenConnManager implements uct.ConnManagerComponent.
func (c *component) OpenConnManager(w *uct.Worker, cfg *config.Set) (uct.ConnManager, error) {
	opts, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	m, err := openManager(c, w, opts)
	if err != nil {
		return nil, err
	}
	return m, nil
}
