package uct

import (
	"slices"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// named is a Component that only has a name.
type named string

func (n named) Name() string                                   { return string(n) }
func (named) Flags() ComponentFlags                            { return 0 }
func (named) Transports() []string                             { return nil }
func (named) MemoryDomains(*config.Set) ([]MDResource, error)  { return nil, nil }
func (named) OpenMD(string, *config.Set) (MemoryDomain, error) { return nil, ucs.ErrNoDevice }

// withRegistry runs a test with an empty registry.
func withRegistry(t *testing.T) {
	t.Helper()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	old := registry.byName
	registry.byName = nil
	t.Cleanup(func() {
		registry.mu.Lock()
		defer registry.mu.Unlock()
		registry.byName = old
	})
}

func names() (list []string) {
	for _, c := range Components() {
		list = append(list, c.Name())
	}
	return list
}

func TestRegister(t *testing.T) {
	withRegistry(t)
	if n := len(Components()); n != 0 {
		t.Fatalf("%d components in an empty registry", n)
	}
	for _, n := range []named{"tcp", "self", "ib", "posix"} {
		Register(n)
	}
	want := []string{"self", "tcp", "posix", "ib"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("components %v, want %v", got, want)
	}
	// The caller may change the list.
	Components()[0] = named("changed")
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("components %v after the list was changed, want %v", got, want)
	}
}

func TestRegisterTwicePanics(t *testing.T) {
	withRegistry(t)
	Register(named("tcp"))
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		if got := names(); !slices.Equal(got, []string{"tcp"}) {
			t.Errorf("components %v", got)
		}
	}()
	Register(named("tcp"))
}

// TestComponentsInOrder: components are listed in the order of C UCX, then others by name.
func TestComponentsInOrder(t *testing.T) {
	withRegistry(t)
	for _, name := range []string{"zz", "cma", "ib", "posix", "rdmacm", "aa", "self", "sysv", "tcp"} {
		Register(named(name))
	}
	if got, want := names(), []string{"self", "tcp", "sysv", "posix", "ib", "rdmacm", "cma", "aa", "zz"}; !slices.Equal(got, want) {
		t.Errorf("components %v, want %v", got, want)
	}
}

func TestRegisterConcurrently(t *testing.T) {
	withRegistry(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			Register(named('a' + rune(i)))
			Components()
		}()
	}
	wg.Wait()
	if n := len(Components()); n != 20 {
		t.Errorf("%d components, want 20", n)
	}
}

// managed is a Component with a connection manager.
type managed struct{ named }

func (managed) OpenConnManager(*Worker, *config.Set) (ConnManager, error) {
	return nil, ucs.ErrNoDevice
}

func TestConnManagers(t *testing.T) {
	withRegistry(t)
	for _, c := range []Component{named("self"), managed{"tcp"}, managed{"rdmacm"}} {
		Register(c)
	}
	var got []string
	for _, c := range ConnManagers() {
		got = append(got, c.Name())
	}
	if want := []string{"tcp", "rdmacm"}; !slices.Equal(got, want) {
		t.Errorf("components with a manager: %v, want %v", got, want)
	}
}
