package main

import (
	"errors"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// domain is the output of -d for a memory domain.
type domain struct {
	component      string
	componentFlags uct.ComponentFlags
	name           string // empty for an entry that holds a component's manager only
	err            error  // why the domain could not be opened or queried
	attr           *uct.MDAttr
	ifaces         []iface  // interfaces, in order of transport
	manager        *manager // the component's manager, in its last domain; nil if it has none
}

// manager is the connection manager of a component.
type manager struct {
	err  error // why the manager could not be opened
	attr *uct.ConnManagerAttr
}

// iface is one transport on one device.
type iface struct {
	resource uct.Resource
	err      error // why the interface could not be opened
	attr     *uct.IfaceAttr
}

// components returns the library's components in the order of C's tool; components that C's tool
// does not have come last.
func components() []uct.Component {
	list := uct.Components()
	known := []string{"self", "tcp", "sysv", "posix", "ib", "rdmacm", "cma"}
	rank := func(c uct.Component) int {
		if k := slices.Index(known, c.Name()); k >= 0 {
			return k
		}
		return len(known)
	}
	slices.SortStableFunc(list, func(a, b uct.Component) int { return rank(a) - rank(b) })
	return list
}

// domains opens all memory domains, interfaces and connection managers, one after another, and
// collects their attributes. If transport is not empty, it opens only interfaces of that transport.
func domains(cfg *config.Set, transport string) []domain {
	var list []domain
	for _, c := range components() {
		resources, err := c.MemoryDomains(cfg)
		if err != nil && !errors.Is(err, ucs.ErrNoDevice) {
			list = append(list, domain{component: c.Name(), name: c.Name(), err: err})
		}
		for _, r := range resources {
			d := openDomain(c, r.Name, cfg, transport)
			if d.err == nil && transport != "" && len(d.ifaces) == 0 {
				continue
			}
			list = append(list, d)
		}
		switch m := openManager(c, cfg); {
		case m == nil:
		case len(list) > 0 && list[len(list)-1].component == c.Name():
			list[len(list)-1].manager = m
		case len(resources) == 0 && transport == "":
			list = append(list, domain{component: c.Name(), manager: m})
		}
	}
	return list
}

// openManager queries the component's connection manager. It returns nil if the component has none.
func openManager(c uct.Component, cfg *config.Set) *manager {
	with, ok := c.(uct.ConnManagerComponent)
	if !ok {
		return nil
	}
	attr, err := managerAttr(with, cfg)
	return &manager{attr: attr, err: err}
}

func managerAttr(c uct.ConnManagerComponent, cfg *config.Set) (_ *uct.ConnManagerAttr, err error) {
	w, err := uct.NewWorker()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	m, err := c.OpenConnManager(w, cfg)
	if err != nil {
		return nil, err
	}
	attr := *m.Attr()
	return &attr, m.Close()
}

func openDomain(c uct.Component, name string, cfg *config.Set, transport string) domain {
	d := domain{component: c.Name(), componentFlags: c.Flags(), name: name}
	md, err := c.OpenMD(name, cfg)
	if err != nil {
		d.err = err
		return d
	}
	attr := *md.Attr()
	d.attr = &attr
	resources, err := md.Resources()
	if err != nil {
		d.err = err
	}
	for len(resources) > 0 {
		tl := resources[0].Transport
		if transport == "" || tl == transport {
			d.ifaces = append(d.ifaces, openIfaces(md, tl, resources, cfg)...)
		}
		resources = slices.DeleteFunc(resources, func(r uct.Resource) bool { return r.Transport == tl })
	}
	if err := md.Close(); err != nil && d.err == nil {
		d.err = err
	}
	return d
}

// openIfaces opens the interfaces of one transport, one at a time.
func openIfaces(md uct.MemoryDomain, transport string, resources []uct.Resource, cfg *config.Set) []iface {
	var list []iface
	for _, r := range resources {
		if r.Transport != transport {
			continue
		}
		attr, err := ifaceAttr(md, r, cfg)
		list = append(list, iface{resource: r, attr: attr, err: err})
	}
	return list
}

func ifaceAttr(md uct.MemoryDomain, r uct.Resource, cfg *config.Set) (_ *uct.IfaceAttr, err error) {
	w, err := uct.NewWorker()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	i, err := md.OpenIface(w, uct.IfaceParams{Transport: r.Transport, Device: r.Device}, cfg)
	if err != nil {
		return nil, err
	}
	attr := *i.Attr()
	return &attr, i.Close()
}
