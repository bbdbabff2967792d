package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// paths lists the transports and devices that can connect two processes, as
// "transport/device".
func paths() ([]string, error) {
	set, err := config.Read("", "")
	if err != nil {
		return nil, err
	}
	var list []string
	failures := []error{errors.New("this machine has no transport between processes")}
	for _, component := range uct.Components() {
		domains, err := component.MemoryDomains(set)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, d := range domains {
			domain, err := component.OpenMD(d.Name, set)
			if err != nil {
				failures = append(failures, err)
				continue
			}
			resources, err := domain.Resources()
			if err == nil {
				for _, r := range resources {
					if r.Type != uct.DeviceSelf {
						list = append(list, r.String())
					}
				}
			}
			if err := domain.Close(); err != nil {
				return nil, err
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.Join(failures...)
	}
	return list, nil
}

// open makes a context and a worker that use one transport and device.
func open(path string) (*ucp.Context, *ucp.Worker, error) {
	transport, device, ok := strings.Cut(path, "/")
	if !ok {
		return nil, nil, fmt.Errorf("%q is not of the form transport/device", path)
	}
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return nil, nil, err
	}
	for name, value := range map[string]string{"TLS": transport, "NET_DEVICES": device, "SHM_DEVICES": device} {
		if err := cfg.Modify(name, value); err != nil {
			return nil, nil, err
		}
	}
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag, Name: "demo"}, cfg)
	if err != nil {
		return nil, nil, err
	}
	w, err := c.NewWorker(ucp.WorkerParams{})
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, w, nil
}
