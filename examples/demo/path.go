package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// path is what messages are sent over: a transport, or a transport on one of several devices.
type path struct {
	name string // for example "posix" or "tcp/lo"
	kind uct.DeviceType
}

// alone reports whether the path leads only to the worker itself.
func (p path) alone() bool { return p.kind == uct.DeviceSelf }

// transports returns the value of UCX_TLS for the path. Cma copies large messages only, so posix
// carries the others; queue pairs of rc_verbs are connected by datagrams.
func (p path) transports() string {
	transport, _, _ := strings.Cut(p.name, "/")
	switch transport {
	case "cma":
		return "posix,cma"
	case "rc_verbs":
		return "rc_verbs,ud_verbs:aux"
	}
	return transport
}

// title returns the description of the path in the output.
func (p path) title() string {
	switch {
	case p.alone():
		return p.name + ", a worker with itself"
	case p.name == "cma":
		return p.name + ", with posix for small messages"
	}
	return p.name
}

// paths returns the paths of this machine in the order of distance.
func paths() ([]path, error) {
	set, err := config.Read("", "")
	if err != nil {
		return nil, err
	}
	var list []path
	failures := []error{errors.New("this machine has no transport")}
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
			if err != nil {
				failures = append(failures, err)
			}
			for _, r := range resources {
				p := path{name: r.Transport, kind: r.Type}
				if r.Type == uct.DeviceNetwork {
					p.name = r.String()
				}
				list = append(list, p)
			}
			if err := domain.Close(); err != nil {
				return nil, err
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.Join(failures...)
	}
	slices.SortStableFunc(list, func(a, b path) int { return distance(a) - distance(b) })
	return list, nil
}

// distance returns a number that orders paths by the distance to the peer.
func distance(p path) int {
	order := []uct.DeviceType{uct.DeviceSelf, uct.DeviceShared, uct.DeviceNetwork}
	n := 2 * slices.Index(order, p.kind)
	if p.name == "cma" {
		n++ // after posix, which it needs
	}
	return n
}

// find returns the path with a name.
func find(list []path, name string) (path, error) {
	i := slices.IndexFunc(list, func(p path) bool { return p.name == name })
	if i < 0 {
		var names []string
		for _, p := range list {
			names = append(names, p.name)
		}
		return path{}, fmt.Errorf("no transport %s here; there are: %s", name, strings.Join(names, " "))
	}
	return list[i], nil
}

// open makes a context and a worker that use nothing but the path.
func (p path) open() (*ucp.Context, *ucp.Worker, error) {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return nil, nil, err
	}
	values := map[string]string{"TLS": p.transports(), "NET_DEVICES": "all", "SHM_DEVICES": "all", "SELF_DEVICES": "all"}
	if _, device, ok := strings.Cut(p.name, "/"); ok {
		values["NET_DEVICES"] = device
	}
	for name, value := range values {
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
