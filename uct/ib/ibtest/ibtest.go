//go:build linux

// Package ibtest provides package ib on simulated devices, without a kernel, for tests.
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

// Named is Component with another name, so that it can be registered beside the component of the
// real devices.
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

// LocksNothing tells package ib that the limit of locked memory, which is small in containers, does
// not apply to these devices.
func (source) LocksNothing() {}

// TrafficClass returns the traffic class in the configuration of a port; ok is false if it is 0. It
// is an optional method of the sources of devices of package ib.
func (s source) TrafficClass(d *verbs.Device, port int) (class uint8, ok bool) {
	for _, k := range s {
		if k.Name() == d.Name {
			class = k.Config().Ports[port-1].TrafficClass
		}
	}
	return class, class != 0
}

// Counter returns a hardware counter of a device; the only one is rcvd_rnr_err. It is an optional
// method of the sources of devices of package ib.
func (s source) Counter(d *verbs.Device, port int, name string) (n uint64, ok bool) {
	for _, k := range s {
		if k.Name() == d.Name && name == "rcvd_rnr_err" {
			return k.NotReady(), true
		}
	}
	return 0, false
}

// Read fills in the P_Key tables; package ib reads nothing else through it.
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
