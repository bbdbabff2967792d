//go:build linux

// Package ibtest is package ib over devices without a kernel, for tests.
package ibtest

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Component is the component "ib" with the devices rxe0, rxe1 and so on, in that order.
func Component(devices ...*verbstest.Kernel) uct.Component {
	return ib.NewComponent("ib", source(devices))
}

// Named is Component under another name, to be registered beside that of the system.
func Named(name string, devices ...*verbstest.Kernel) uct.Component {
	return ib.NewComponent(name, source(devices))
}

type source []*verbstest.Kernel

func (s source) Devices() ([]verbs.Device, error) {
	list := make([]verbs.Device, len(s))
	for i := range list {
		list[i] = verbs.Device{Name: fmt.Sprintf("rxe%d", i), NodeType: verbs.NodeCA, NUMANode: -1}
	}
	return list, nil
}

func (s source) Open(d *verbs.Device) (*verbs.Context, error) {
	for i, k := range s {
		if fmt.Sprintf("rxe%d", i) == d.Name {
			return verbs.NewContext(k.Open(), d.ABIVersion)
		}
	}
	return nil, fmt.Errorf("ibtest: no device %q: %w", d.Name, ucs.ErrNoDevice)
}

func (s source) Read(d *verbs.Device) {
	d.Ports = []verbs.Port{{Num: 1, PKeys: []verbs.PKey{0xffff}}}
}
