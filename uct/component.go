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

	// Flags says what the component offers besides memory domains.
	Flags() ComponentFlags

	// MemoryDomains lists the domains this machine has. An empty list is not an
	// error: the hardware is absent.
	MemoryDomains(cfg *config.Set) ([]MDResource, error)

	// OpenMD opens a domain by name; an unknown name gives ucs.ErrNoDevice. The
	// settings are read during the call and not kept.
	OpenMD(name string, cfg *config.Set) (MemoryDomain, error)
}

// Deviceless is a Component that can say what is missing on a machine where it has no memory
// domains.
type Deviceless interface {
	Component

	// Transports names the transports that there would be with a device.
	Transports() []string

	// Absent says why there is no device: what is missing, and what would help.
	Absent() error
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
	ComponentFlagCM      ComponentFlags = 1 << 0 // it has a connection manager (ConnManagerComponent)
	ComponentFlagRkeyPtr ComponentFlags = 1 << 1 // remote keys may give a local pointer
)

var registry struct {
	mu     sync.Mutex
	byName map[string]Component // guarded by mu
}

// Register makes a component known to Components. Transports call it from init.
// Two components of one name are a programming error and panic.
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

// order is that in which C UCX 1.22 registers its components, which numbers them in listings.
var order = []string{"self", "tcp", "sysv", "posix", "ib", "rdmacm", "cma"}

// place is where a component stands in that order, those that C has not behind the others.
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
