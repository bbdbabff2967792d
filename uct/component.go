package uct

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/ucx-go/ucx/ucs/config"
)

// Component is one family of transports.
type Component interface {
	// Name is the component's unique name.
	Name() string

	// Flags returns the component's capabilities besides memory domains.
	Flags() ComponentFlags

	// Transports returns the names of the transports that the domains may provide, also on a
	// machine that has none of them.
	Transports() []string

	// MemoryDomains lists the domains of this machine. If the hardware is absent, the list is
	// empty, and the error is nil or matches ucs.ErrNoDevice; its text then names the missing
	// part and the remedy.
	MemoryDomains(cfg *config.Set) ([]MDResource, error)

	// OpenMD opens a domain by name; an unknown name gives ucs.ErrNoDevice. The
	// settings are read during the call and not kept.
	OpenMD(name string, cfg *config.Set) (MemoryDomain, error)
}

// MDResource names a memory domain that can be opened.
type MDResource struct {
	Name string
}

// ComponentFlags are properties of a Component (UCT_COMPONENT_FLAG_*), with C's bit
// numbers.
type ComponentFlags uint64

// Component flags.
const (
	ComponentFlagCM      ComponentFlags = 1 << 0 // has a connection manager (ConnManagerComponent)
	ComponentFlagRkeyPtr ComponentFlags = 1 << 1 // remote keys may give a local pointer
)

var registry struct {
	mu     sync.Mutex
	byName map[string]Component // guarded by mu
}

// Register adds a component to those that Components returns. Transports call it from init. It
// panics if a component of the same name is already registered, because that is a programming
// error.
func Register(c Component) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if _, dup := registry.byName[c.Name()]; dup {
		panic(fmt.Sprintf("uct: component %q registered twice", c.Name()))
	}
	if registry.byName == nil {
		registry.byName = make(map[string]Component)
	}
	registry.byName[c.Name()] = c
}

// order is the order in which C UCX 1.22 registers its components. Listings number components
// in this order.
var order = []string{"self", "tcp", "sysv", "posix", "ib", "rdmacm", "cma"}

// place returns the index of a component in the list order. Components that C UCX lacks come last.
func place(c Component) int {
	if i := slices.Index(order, c.Name()); i >= 0 {
		return i
	}
	return len(order)
}

// Components returns the registered components: those of C UCX in its order, then the others
// by name. Any goroutine may call it.
func Components() []Component {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	list := make([]Component, 0, len(registry.byName))
	for _, c := range registry.byName {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Component) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Name(), b.Name()))
	})
	return list
}

// ConnManagers returns the registered components that have a connection manager, in
// the order of Components. Any goroutine may call it.
func ConnManagers() []ConnManagerComponent {
	var list []ConnManagerComponent
	for _, c := range Components() {
		if m, ok := c.(ConnManagerComponent); ok {
			list = append(list, m)
		}
	}
	return list
}
