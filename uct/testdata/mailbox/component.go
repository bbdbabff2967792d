package mailbox

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// name is the name of the component, of its domain and of its transport.
const name = "mailbox"

func init() { uct.Register(component{}) }

type component struct{}

func (component) Name() string              { return name }
func (component) Flags() uct.ComponentFlags { return 0 }
func (component) Transports() []string      { return []string{name} }

func (component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: name}}, nil
}

func (component) OpenMD(md string, _ *config.Set) (uct.MemoryDomain, error) {
	if md != name {
		return nil, fmt.Errorf("mailbox: no memory domain %q: %w", md, ucs.ErrNoDevice)
	}
	return newDomain(), nil
}
