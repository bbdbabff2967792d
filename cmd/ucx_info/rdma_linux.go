package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// rdma is the output of -d for RDMA devices.
type rdma struct {
	devices []rdmaDevice
	err     error // reason why the devices could not be listed
}

// rdmaDevice is a device as sysfs describes it, with the results of opening it.
type rdmaDevice struct {
	verbs.Device
	driver string // "" if unknown
	err    error  // reason why the device cannot be used

	transports []string // names of the transports over the device
	lacks      error    // reason why there are no transports, if known

	mtu map[int]portMTU
}

// portMTU holds the MTUs of a port in bytes, which sysfs does not show.
type portMTU struct{ active, max int }

// rdmaMachine is the machine whose devices are listed; tests replace it.
type rdmaMachine struct {
	sysfs string
	open  func(*verbs.Device) (*verbs.Context, error)
	list  func(device string) (transports []string, lacks error)
}

var thisMachine = rdmaMachine{open: (*verbs.Device).Open, list: transportsOver}

// transportsOver lists the transports over a device, or returns why there are none.
func transportsOver(device string) (list []string, lacks error) {
	for _, c := range uct.Components() {
		if c.Name() != ibComponent {
			continue
		}
		md, err := c.OpenMD(device, nil)
		if err != nil {
			return nil, err
		}
		resources, err := md.Resources()
		for _, r := range resources {
			if !slices.Contains(list, r.Transport) {
				list = append(list, r.Transport)
			}
		}
		if missing := md.Attr().Missing; len(missing) > 0 && err == nil {
			err = missing[0].Reason
		}
		return list, errors.Join(err, md.Close())
	}
	return nil, nil
}

// ibComponent is the name of the component of the transports over RDMA devices.
const ibComponent = "ib"

// find lists the devices and tries to open each.
func (m rdmaMachine) find() rdma {
	list, err := verbs.AllDevices(m.sysfs)
	r := rdma{err: err}
	for _, d := range list {
		r.devices = append(r.devices, m.look(d))
	}
	return r
}

func (m rdmaMachine) look(d verbs.Device) rdmaDevice {
	r := rdmaDevice{Device: d, driver: d.Driver, mtu: make(map[int]portMTU)}
	c, err := m.open(&d)
	if err != nil {
		r.err = err
		return r
	}
	r.driver = c.Driver()
	if m.list != nil {
		r.transports, r.lacks = m.list(d.Name)
	}
	for _, p := range d.Ports {
		a, err := c.QueryPort(p.Num)
		if err != nil {
			r.err = err
			break
		}
		r.mtu[p.Num] = portMTU{a.ActiveMTU.Bytes(), a.MaxMTU.Bytes()}
	}
	if err := c.Close(); err != nil && r.err == nil {
		r.err = err
	}
	return r
}

// speed returns the number of lanes and their speed: "4X EDR" for "100 Gb/sec (4X EDR)".
func speed(p *verbs.Port) string {
	_, s, _ := strings.Cut(p.RateText, "(")
	return strings.TrimSuffix(s, ")")
}

// gidType returns the protocol of a GID. iWARP devices have no GID types.
func gidType(d *verbs.Device, g *verbs.PortGID) string {
	switch {
	case d.NodeType == verbs.NodeRNIC:
		return "iWARP"
	case g.Type == verbs.GIDUnknown:
		return "unknown"
	}
	return g.Type.String()
}

// gidText prints a GID in the form usual for its type: an IP address for RoCE v2.
func gidText(g *verbs.PortGID) string {
	if g.Type == verbs.GIDRoCEv2 {
		return g.GID.Addr().String()
	}
	return g.GID.String()
}

// writeRDMA prints the RDMA devices, which C's tool does not have, in the style of its other
// output.
func writeRDMA(w io.Writer, r rdma) {
	if r.err != nil {
		fmt.Fprintf(w, "# < failed to list RDMA devices: %v >\n", r.err)
	}
	for i := range r.devices {
		writeRDMADevice(w, &r.devices[i])
	}
}

// transportsText lists the transports over a device that could be opened.
func (d *rdmaDevice) transportsText() string {
	switch {
	case len(d.transports) > 0:
		return strings.Join(d.transports, ", ")
	case d.lacks != nil:
		return fmt.Sprintf("none (%v)", d.lacks)
	}
	return "none"
}

func writeRDMADevice(w io.Writer, d *rdmaDevice) {
	field := func(label, format string, args ...any) {
		fmt.Fprintf(w, "#%21s: %s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "#\n# RDMA device: %s\n", d.Name)
	if d.driver != "" {
		field("driver", "%s", d.driver)
	}
	field("node type", "%v", d.NodeType)
	field("node guid", "%v", d.NodeGUID)
	if d.Firmware != "" {
		field("firmware", "%s", d.Firmware)
	}
	if d.BoardID != "" {
		field("board", "%s", d.BoardID)
	}
	if d.PCI != "" {
		field("pci device", "%s (%04x:%04x)", d.PCI, d.PCIVendor, d.PCIDevice)
	}
	if d.NUMANode >= 0 {
		field("numa node", "%d", d.NUMANode)
	}
	if d.Parent != "" {
		field("netdev", "%s", d.Parent)
	}
	if d.err != nil {
		fmt.Fprintf(w, "#   < failed to open RDMA device %s: %v >\n", d.Name, d.err)
	} else {
		field("transports", "%s", d.transportsText())
	}
	for i := range d.Ports {
		writeRDMAPort(w, d, &d.Ports[i], field)
	}
}

// maxGIDs is the number of GIDs of a port that are printed: there may be hundreds, two for each
// address of each VLAN.
const maxGIDs = 16

func writeRDMAPort(w io.Writer, d *rdmaDevice, p *verbs.Port, field func(label, format string, args ...any)) {
	fmt.Fprintf(w, "#\n#           Port: %d\n", p.Num)
	if p.PhysState != "" {
		field("state", "%v (%s)", p.State, p.PhysState)
	} else {
		field("state", "%v", p.State)
	}
	field("link layer", "%v", p.LinkLayer)
	if p.Rate > 0 {
		field("speed", "%v Gb/s (%s)", p.Rate, speed(p))
	}
	if mtu, ok := d.mtu[p.Num]; ok {
		field("mtu", "%d bytes, at most %d", mtu.active, mtu.max)
	}
	if p.LinkLayer == verbs.LinkInfiniBand {
		field("lid", "%d, of the subnet manager %d", p.LID, p.SMLID)
	}
	for i := range p.GIDs {
		if i == maxGIDs {
			field("gids", "%d more", len(p.GIDs)-i)
			break
		}
		g := &p.GIDs[i]
		text := fmt.Sprintf("%s, %s", gidText(g), gidType(&d.Device, g))
		if g.NetDev != "" {
			text += ", " + g.NetDev
		}
		field(fmt.Sprintf("gid %d", g.Index), "%s", text)
	}
}

// jsonRDMA is a device in JSON.
type jsonRDMA struct {
	Name         string         `json:"name"`
	Driver       string         `json:"driver,omitempty"`
	Error        string         `json:"error,omitempty"`
	NodeType     string         `json:"node_type"`
	NodeGUID     string         `json:"node_guid"`
	SysImageGUID string         `json:"sys_image_guid"`
	Firmware     string         `json:"firmware,omitempty"`
	HCAType      string         `json:"hca_type,omitempty"`
	BoardID      string         `json:"board_id,omitempty"`
	PCI          *jsonPCI       `json:"pci,omitempty"`
	NUMANode     *int           `json:"numa_node"`
	Parent       string         `json:"parent,omitempty"`
	Transports   []string       `json:"transports"`
	Ports        []jsonRDMAPort `json:"ports"`
}

type jsonPCI struct {
	Address string `json:"address"`
	Vendor  int    `json:"vendor"`
	Device  int    `json:"device"`
}

type jsonRDMAPort struct {
	Port          int       `json:"port"`
	State         string    `json:"state"`
	PhysicalState string    `json:"physical_state,omitempty"`
	LinkLayer     string    `json:"link_layer"`
	Bandwidth     float64   `json:"bandwidth"`
	Speed         string    `json:"speed,omitempty"`
	MTU           *int      `json:"mtu"`
	MaxMTU        *int      `json:"max_mtu"`
	LID           int       `json:"lid"`
	SMLID         int       `json:"sm_lid"`
	GIDs          []jsonGID `json:"gids"`
}

type jsonGID struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	NetDev string `json:"netdev,omitempty"`
}

func rdmaJSON(r rdma) []jsonRDMA {
	var list []jsonRDMA
	for i := range r.devices {
		d := &r.devices[i]
		j := jsonRDMA{
			Name: d.Name, Driver: d.driver, Error: text(d.err), NodeType: d.NodeType.String(), NodeGUID: d.NodeGUID.String(),
			SysImageGUID: d.SysImageGUID.String(), Firmware: d.Firmware, HCAType: d.HCAType, BoardID: d.BoardID, Parent: d.Parent,
			Transports: append([]string{}, d.transports...), Ports: []jsonRDMAPort{},
		}
		if d.PCI != "" {
			j.PCI = &jsonPCI{d.PCI, int(d.PCIVendor), int(d.PCIDevice)}
		}
		if d.NUMANode >= 0 {
			j.NUMANode = &d.NUMANode
		}
		for k := range d.Ports {
			j.Ports = append(j.Ports, rdmaPortJSON(d, &d.Ports[k]))
		}
		list = append(list, j)
	}
	return list
}

func rdmaPortJSON(d *rdmaDevice, p *verbs.Port) jsonRDMAPort {
	const bytesPerGigabit = 1e9 / 8
	j := jsonRDMAPort{
		Port: p.Num, State: p.State.String(), PhysicalState: p.PhysState, LinkLayer: p.LinkLayer.String(), Bandwidth: p.Rate * bytesPerGigabit,
		Speed: speed(p), LID: int(p.LID), SMLID: int(p.SMLID), GIDs: []jsonGID{},
	}
	if mtu, ok := d.mtu[p.Num]; ok {
		j.MTU, j.MaxMTU = &mtu.active, &mtu.max
	}
	for i := range p.GIDs {
		g := &p.GIDs[i]
		j.GIDs = append(j.GIDs, jsonGID{g.Index, g.GID.String(), gidType(&d.Device, g), g.NetDev})
	}
	return j
}
