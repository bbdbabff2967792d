//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// findDomain opens the memory domain that has a transport on a device. If there is none, the error
// lists the existing ones, and the reasons why domains could not be opened.
func findDomain(cfg *config.Set, transport, device string) (uct.MemoryDomain, error) {
	var there []string
	var missing error
	for _, c := range uct.Components() {
		mds, err := c.MemoryDomains(cfg)
		if err != nil && !errors.Is(err, ucs.ErrNoDevice) {
			missing = errors.Join(missing, fmt.Errorf("%s: %w", c.Name(), err))
		}
		for _, m := range mds {
			md, list, err := openDomain(c, m.Name, cfg)
			if err != nil {
				missing = errors.Join(missing, fmt.Errorf("%s: %w", m.Name, err))
				continue
			}
			for _, res := range list {
				if res.Transport == transport && res.Device == device {
					return md, nil
				}
				there = append(there, res.String())
			}
			if err := md.Close(); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(there)
	err := fmt.Errorf("no %s/%s among %s: %w", transport, device, strings.Join(there, ", "), ucs.ErrNoDevice)
	if missing != nil {
		err = fmt.Errorf("%w; not available: %w", err, missing)
	}
	return nil, err
}

func openDomain(c uct.Component, name string, cfg *config.Set) (uct.MemoryDomain, []uct.Resource, error) {
	md, err := c.OpenMD(name, cfg)
	if err != nil {
		return nil, nil, err
	}
	list, err := md.Resources()
	if err != nil {
		return nil, nil, errors.Join(err, md.Close())
	}
	return md, list, nil
}
