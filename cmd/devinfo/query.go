package main

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// hca is all that is printed of a device.
type hca struct {
	device  *verbs.Device
	attr    verbs.DeviceAttr
	vectors int // completion vectors
	ports   []port
}

type port struct {
	num  int
	attr verbs.PortAttr
	gids []verbs.GIDEntry
}

// errNoPort is what a wrong -i gives.
var errNoPort = errors.New("the device has no such port")

// query asks the device. With an error the result is what was known before it, nil
// if that is nothing.
func query(c *verbs.Context, d *verbs.Device, o *options) (*hca, error) {
	attr, err := c.QueryDevice()
	if err != nil {
		return nil, err
	}
	h := &hca{device: d, attr: attr, vectors: c.NumCompVectors()}
	if o.port > attr.Ports {
		return h, fmt.Errorf("%w, it has %d", errNoPort, attr.Ports)
	}
	var gids []verbs.GIDEntry
	if o.verbose {
		if gids, err = c.QueryGIDTable(); err != nil {
			return h, err
		}
	}
	for num := 1; num <= attr.Ports; num++ {
		if o.port != 0 && num != o.port {
			continue
		}
		p := port{num: num}
		if p.attr, err = c.QueryPort(num); err != nil {
			return h, err
		}
		for _, g := range gids {
			if g.Port == num {
				p.gids = append(p.gids, g)
			}
		}
		h.ports = append(h.ports, p)
	}
	return h, nil
}
