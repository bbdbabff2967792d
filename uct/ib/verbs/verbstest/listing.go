//go:build linux

package verbstest

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// What sysfs says of the devices of a network, in the form that Sysfs takes. The text
// of the files is that of drivers/infiniband/core/sysfs.c of Linux.

// WriteSysfs makes a tree of files like sysfs in a directory, with the devices of the
// network as they are now: what lists devices from sysfs lists them from there, as
// uverbs0 and so on, and Find has the devices by these names.
func (n *Fabric) WriteSysfs(dir string) error { return Sysfs(dir, n.Listing()) }

// Listing is what WriteSysfs makes files of.
func (n *Fabric) Listing() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var s strings.Builder
	s.WriteString("class/infiniband_verbs/abi_version: 6\n")
	for _, k := range n.kernels {
		k.listing(&s)
	}
	return s.String()
}

// listing is that of the device: its folders are those of the classes, or of the adapter
// that it is on, with links from the classes.
func (k *Kernel) listing(s *strings.Builder) {
	add := func(line string) { fmt.Fprintln(s, line) }
	line := func(path, format string, args ...any) { add(path + ": " + fmt.Sprintf(format, args...)) }
	node := fmt.Sprintf("uverbs%d", k.number)
	verbs, dir := "class/infiniband_verbs/"+node, "class/infiniband/"+k.cfg.Name
	if adapter := k.of.adapter(k, add); adapter != "" {
		for _, class := range []string{verbs, dir} {
			_, path, _ := strings.Cut(class, "/")
			add(class + " -> ../../" + adapter + "/" + path)
			add(adapter + "/" + path + "/device -> ../../../" + filepath.Base(adapter))
		}
		verbs, dir = adapter+"/infiniband_verbs/"+node, adapter+"/infiniband/"+k.cfg.Name
	}
	line(verbs+"/ibdev", "%s", k.cfg.Name)
	_, version := k.of.driver()
	line(verbs+"/abi_version", "%d", version)
	line(verbs+"/dev", "231:%d", 192+k.number)
	file := func(path, format string, args ...any) { line(dir+"/"+path, format, args...) }
	guid := fmt.Sprintf("%016x", k.cfg.NodeGUID)
	file("node_guid", "%s", groups(guid))
	file("sys_image_guid", "%s", groups(guid))
	file("node_type", "1: CA")
	file("node_desc", "%s", k.cfg.Name)
	k.of.identity(file)
	for _, p := range k.ports {
		if p.TrafficClass != 0 {
			file(fmt.Sprintf("tc/%d/traffic_class", p.num), "Global tclass=%d", p.TrafficClass)
		}
		p.listing(func(path, format string, args ...any) {
			file(fmt.Sprintf("ports/%d/%s", p.num, path), format, args...)
		})
	}
}

// listing is that of the port.
func (p *port) listing(file func(path, format string, args ...any)) {
	link, state, phys := "Ethernet", "1: DOWN", "3: Disabled"
	lid := uint16(0)
	if p.InfiniBand {
		link, lid = "InfiniBand", p.LID
	}
	if p.active {
		state, phys = "4: ACTIVE", "5: LinkUp"
	}
	file("link_layer", "%s", link)
	file("state", "%s", state)
	file("phys_state", "%s", phys)
	file("lid", "0x%x", lid)
	file("lid_mask_count", "%d", p.LMC)
	file("sm_lid", "0x0")
	file("sm_sl", "0")
	file("rate", "%s", p.rate())
	for i, key := range p.PKeys {
		file(fmt.Sprintf("pkeys/%d", i), "0x%04x", key)
	}
	for i := range p.GIDs {
		g := &p.GIDs[i]
		file(fmt.Sprintf("gids/%d", i), "%s", groups(hex.EncodeToString(g.ID[:])))
		if g.ID == ([16]byte{}) {
			continue // what there is of it cannot be read
		}
		typ := "RoCE v2"
		if p.InfiniBand || g.V1 {
			typ = "IB/RoCE v1"
		}
		file(fmt.Sprintf("gid_attrs/types/%d", i), "%s", typ)
		if g.NetDev != "" {
			file(fmt.Sprintf("gid_attrs/ndevs/%d", i), "%s", g.NetDev)
		}
	}
}

// rate is the speed of all lanes, as rate_show has it.
func (p *port) rate() string {
	speed, name := 25, "SDR"
	switch p.Speed {
	case 2:
		speed, name = 50, "DDR"
	case 4:
		speed, name = 100, "QDR"
	case 8:
		speed, name = 100, "FDR10"
	case 16:
		speed, name = 140, "FDR"
	case 32:
		speed, name = 250, "EDR"
	case 64:
		speed, name = 500, "HDR"
	case 128:
		speed, name = 1000, "NDR"
	}
	n, half := lanes[p.Width], ""
	if speed*n%10 != 0 {
		half = ".5"
	}
	return fmt.Sprintf("%d%s Gb/sec (%dX %s)", speed*n/10, half, n, name)
}

// lanes are how many a port has, by its width.
var lanes = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}

// groups puts a colon behind every four digits.
func groups(digits string) string {
	var parts []string
	for ; len(digits) > 4; digits = digits[4:] {
		parts = append(parts, digits[:4])
	}
	return strings.Join(append(parts, digits), ":")
}
