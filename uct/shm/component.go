//go:build linux

package shm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// Names of the components, of their only domains and of their transports.
const (
	posixName = "posix"
	sysvName  = "sysv"
)

// deviceName is the name of the only device of each component.
const deviceName = "memory"

func init() {
	uct.Register(component{posixName})
	uct.Register(component{sysvName})
}

// component is the component posix or sysv.
type component struct{ name string }

var _ uct.Component = component{}

// Name implements uct.Component.
func (c component) Name() string { return c.name }

// Flags implements uct.Component.
func (c component) Flags() uct.ComponentFlags { return uct.ComponentFlagRkeyPtr }

// Transports implements uct.Component.
func (c component) Transports() []string { return []string{c.Name()} }

// MemoryDomains implements uct.Component.
func (c component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: c.name}}, nil
}

// OpenMD implements uct.Component.
func (c component) OpenMD(md string, cfg *config.Set) (uct.MemoryDomain, error) {
	if md != c.name {
		return nil, fmt.Errorf("shm: %s has no memory domain %q: %w", c.name, md, ucs.ErrNoDevice)
	}
	m, err := c.mapper(cfg)
	if err != nil {
		return nil, err
	}
	return openDomain(c, m), nil
}

// mapper reads the settings of a domain and returns the domain's mapper.
func (c component) mapper(cfg *config.Set) (mapper, error) {
	section := c.name + " memory domain"
	users, err := host.LoadUsers(cfg)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if c.name == sysvName {
		var s sysvDomainSettings
		if err := cfg.Load(section, &s); err != nil {
			return nil, err
		}
		return &sysv{huge: s.MM.Huge, users: users}, nil
	}
	var s posixDomainSettings
	if err := cfg.Load(section, &s); err != nil {
		return nil, err
	}
	if s.MM.Huge == config.Yes {
		return nil, fmt.Errorf("shm: UCX_POSIX_HUGETLB_MODE=y: files in memory have no huge pages; "+
			"use try, or transport sysv: %w", ucs.ErrUnsupported)
	}
	if !s.UseProcLink && (len(s.Dir) == 0 || s.Dir[0] != '/' || len(s.Dir) > maxDir) {
		return nil, fmt.Errorf("shm: UCX_POSIX_DIR is %q, not an absolute path of at most %d bytes: %w",
			s.Dir, maxDir, ucs.ErrInvalidParam)
	}
	m := newPosix(s)
	m.users = users
	return m, nil
}
