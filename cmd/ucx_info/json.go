package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// document is the JSON output; the package comment describes it.
type document struct {
	Version *versionInfo      `json:"version,omitempty"`
	Build   map[string]string `json:"build,omitempty"`
	System  *systemInfo       `json:"system,omitempty"`
	Devices *jsonDevices      `json:"devices,omitempty"`
	Config  []jsonSetting     `json:"config,omitempty"`
}

type jsonDevices struct {
	MemoryDomains []jsonDomain `json:"memory_domains"`
	RDMADevices   []jsonRDMA   `json:"rdma_devices,omitempty"`
	RDMAError     string       `json:"rdma_error,omitempty"`
}

type jsonDomain struct {
	Name        string              `json:"name"`
	Component   string              `json:"component"`
	Error       string              `json:"error,omitempty"`
	Allocate    *jsonMemory         `json:"allocate,omitempty"`
	Register    *jsonMemory         `json:"register,omitempty"`
	RkeySize    *int                `json:"rkey_size,omitempty"`
	RkeyPtr     bool                `json:"rkey_ptr"`
	MemhNeeded  bool                `json:"memh_needed"`
	Invalidate  bool                `json:"invalidate"`
	MemoryTypes map[string][]string `json:"memory_types"`
	Transports  []jsonIface         `json:"transports"`
	Manager     *jsonManager        `json:"connection_manager,omitempty"`
}

type jsonManager struct {
	Error      string `json:"error,omitempty"`
	MaxPrivate int    `json:"max_conn_priv,omitempty"`
}

type jsonMemory struct {
	Max  *uint64   `json:"max"`
	Cost *jsonCost `json:"cost,omitempty"`
}

type jsonCost struct {
	Fixed   float64 `json:"fixed"`
	PerUnit float64 `json:"per_unit"`
}

type jsonIface struct {
	Transport    string `json:"transport"`
	Device       string `json:"device"`
	Type         string `json:"type"`
	SystemDevice *int   `json:"system_device"`
	Error        string `json:"error,omitempty"`
	*jsonAttr           // absent if the interface could not be opened
}

type jsonAttr struct {
	Bandwidth     jsonBandwidth             `json:"bandwidth"`
	Latency       jsonCost                  `json:"latency"`
	Overhead      float64                   `json:"overhead"`
	Operations    map[string]map[string]any `json:"operations"`
	Atomics       map[string][]int          `json:"atomics"`
	Connection    []string                  `json:"connection"`
	Priority      int                       `json:"priority"`
	Paths         int                       `json:"paths"`
	MaxEndpoints  *uint64                   `json:"max_endpoints"`
	DeviceAddress int                       `json:"device_address"`
	IfaceAddress  int                       `json:"iface_address"`
	EpAddress     int                       `json:"ep_address"`
	ErrorHandling []string                  `json:"error_handling"`
}

type jsonBandwidth struct {
	Dedicated float64 `json:"dedicated"`
	Shared    float64 `json:"shared"`
}

type jsonSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func showJSON(w io.Writer, o *options, cfg *config.Set) error {
	var doc document
	if o.version {
		v := version()
		doc.Version = &v
	}
	if o.build {
		doc.Build = buildSettings()
	}
	if o.system {
		s := system("/")
		doc.System = &s
	}
	if o.devices {
		doc.Devices = devicesJSON(domains(cfg, o.transport))
		if o.transport == "" {
			r := thisMachine.find()
			doc.Devices.RDMADevices, doc.Devices.RDMAError = rdmaJSON(r), text(r.err)
		}
	}
	if o.print&config.PrintConfig != 0 {
		var err error
		if doc.Config, err = settingsJSON(cfg, o.print); err != nil {
			return err
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(&doc)
}

func devicesJSON(list []domain) *jsonDevices {
	devices := &jsonDevices{MemoryDomains: []jsonDomain{}}
	for i := range list {
		devices.MemoryDomains = append(devices.MemoryDomains, domainJSON(&list[i]))
	}
	return devices
}

func domainJSON(d *domain) jsonDomain {
	j := jsonDomain{
		Name:        d.name,
		Component:   d.component,
		Error:       text(d.err),
		MemoryTypes: map[string][]string{},
		Transports:  []jsonIface{},
	}
	if m := d.manager; m != nil {
		j.Manager = &jsonManager{Error: text(m.err)}
		if m.attr != nil {
			j.Manager.MaxPrivate = m.attr.MaxPrivate
		}
	}
	a := d.attr
	if a == nil {
		return j
	}
	if a.Flags&uct.MDFlagAlloc != 0 {
		j.Allocate = &jsonMemory{Max: bounded(a.MaxAlloc)}
	}
	if a.Flags&uct.MDFlagRegister != 0 {
		j.Register = &jsonMemory{Max: bounded(a.MaxReg), Cost: &jsonCost{a.RegCost.C, a.RegCost.M}}
	}
	if a.Flags&uct.MDFlagNeedRkey != 0 {
		j.RkeySize = &a.RkeyPackedSize
	}
	j.RkeyPtr = d.componentFlags&uct.ComponentFlagRkeyPtr != 0
	j.MemhNeeded = a.Flags&uct.MDFlagNeedMemh != 0
	j.Invalidate = a.Flags&uct.MDFlagInvalidate != 0
	for _, m := range domainMemory(a) {
		j.MemoryTypes[m.memory.String()] = m.uses
	}
	for i := range d.ifaces {
		j.Transports = append(j.Transports, ifaceJSON(&d.ifaces[i]))
	}
	return j
}

func ifaceJSON(i *iface) jsonIface {
	r := &i.resource
	j := jsonIface{Transport: r.Transport, Device: r.Device, Type: r.Type.String(), Error: text(i.err)}
	if r.SysDevice >= 0 {
		j.SystemDevice = &r.SysDevice
	}
	a := i.attr
	if a == nil {
		return j
	}
	j.jsonAttr = &jsonAttr{
		Bandwidth:     jsonBandwidth{a.Perf.BandwidthDedicated, a.Perf.BandwidthShared},
		Latency:       jsonCost{a.Perf.Latency.C, a.Perf.Latency.M},
		Overhead:      a.Perf.Overhead,
		Operations:    map[string]map[string]any{},
		Atomics:       map[string][]int{},
		Connection:    orEmpty(connections(a)),
		Priority:      int(a.Perf.Priority),
		Paths:         a.NumPaths,
		MaxEndpoints:  bounded(sizeT(a.MaxEndpoints)),
		DeviceAddress: a.DeviceAddrLen,
		IfaceAddress:  a.IfaceAddrLen,
		EpAddress:     a.EpAddrLen,
		ErrorHandling: orEmpty(errorHandling(a)),
	}
	for _, o := range operations(a) {
		m := map[string]any{"max": bounded(sizeT(o.max))}
		if o.iov {
			m["min"], m["max_iov"] = o.min, bounded(sizeT(o.maxIOV))
		}
		for _, d := range o.details {
			m[d.key] = bounded(sizeT(d.value))
		}
		j.Operations[o.name] = m
	}
	for _, op := range atomics(a) {
		j.Atomics[op.name] = op.bits
	}
	return j
}

// settingsJSON takes the names and values from the output of -c.
func settingsJSON(cfg *config.Set, flags config.PrintFlags) ([]jsonSetting, error) {
	var b bytes.Buffer
	if err := cfg.Write(&b, "", config.PrintConfig|flags&config.PrintHidden); err != nil {
		return nil, err
	}
	list := []jsonSetting{}
	for _, line := range strings.Split(b.String(), "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		origin := config.Origin{}.String()
		if _, o, known := cfg.Lookup(name); known {
			origin = o.String()
		}
		list = append(list, jsonSetting{name, value, origin})
	}
	return list, nil
}

// bounded returns a limit for JSON: nil if it is unlimited, or too large to matter.
func bounded(n uint64) *uint64 {
	if n >= uct.Unlimited {
		return nil
	}
	return &n
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// orEmpty makes a nil list print as [].
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
