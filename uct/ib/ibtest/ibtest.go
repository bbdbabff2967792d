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

// Component returns the component "ib" with these devices, in that order.
func Component(devices ...*verbstest.Kernel) uct.Component {
	return ib.NewComponent("ib", source(devices))
}

// Named is Component under another name, to be registered beside the system's.
func Named(name string, devices ...*verbstest.Kernel) uct.Component {
	return ib.NewComponent(name, source(devices))
}

type source []*verbstest.Kernel

func (s source) Devices() ([]verbs.Device, error) {
	list := make([]verbs.Device, len(s))
	for i, k := range s {
		list[i] = verbs.Device{Name: k.Name(), NodeType: verbs.NodeCA, NUMANode: -1}
	}
	return list, nil
}

func (s source) Open(d *verbs.Device) (*verbs.Context, error) {
	for _, k := range s {
		if k.Name() == d.Name {
			return verbs.NewContext(k.Open(), d.ABIVersion)
		}
	}
	return nil, fmt.Errorf("ibtest: no device %q: %w", d.Name, ucs.ErrNoDevice)
}

// LocksNothing tells package ib that the limit of locked memory, which is small in containers,
// is not one of these devices.
func (source) LocksNothing() {}

// TrafficClass implements what package ib asks of sources for it.
func (s source) TrafficClass(d *verbs.Device, port int) (class uint8, ok bool) {
	for _, k := range s {
		if k.Name() == d.Name {
			class = k.Config().Ports[port-1].TrafficClass
		}
	}
	return class, class != 0
}

// Counter implements what package ib asks of sources for it.
func (s source) Counter(d *verbs.Device, port int, name string) (n uint64, ok bool) {
	for _, k := range s {
		if k.Name() == d.Name && name == "rcvd_rnr_err" {
			return k.NotReady(), true
		}
	}
	return 0, false
}

// Read fills in the tables of partitions, for which nothing else is asked.
func (s source) Read(d *verbs.Device) {
	for _, k := range s {
		if k.Name() != d.Name {
			continue
		}
		for i, p := range k.Config().Ports {
			port := verbs.Port{Num: i + 1}
			for _, key := range p.PKeys {
				port.PKeys = append(port.PKeys, verbs.PKey(key))
			}
			d.Ports = append(d.Ports, port)
		}
	}
}
