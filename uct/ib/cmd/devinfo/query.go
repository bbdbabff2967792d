//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// hca is the printed information about a device.
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

var (
	errNoPort = errors.New("the device has no such port") // the port of -i does not exist
	errGIDs   = errors.New("no table of GIDs")
)

// query reads the properties of a device and of the ports that o selects. With an error it returns
// what was read before the error, or nil if the device itself cannot be queried.
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
	var gidErr error
	if o.verbose {
		gids, gidErr = c.QueryGIDTable() // of all ports
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
		if gidErr != nil {
			return h, fmt.Errorf("%w: %w", errGIDs, gidErr)
		}
	}
	return h, nil
}
