//go:build linux

package verbstest

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sysfs makes a tree of files like sysfs in a directory, out of a listing with
// lines of the forms
//
//	path: text      a file with a line of text
//	path -> target  a symbolic link
//	path ! EINVAL   something that is listed and cannot be read
//	# …             a comment
//
// {2..1023} in a path stands for each of the numbers.
func Sysfs(dir, listing string) error {
	for n, line := range strings.Split(listing, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if err := sysfsLine(dir, line); err != nil {
			return fmt.Errorf("line %d, %q: %w", n+1, line, err)
		}
	}
	return nil
}

func sysfsLine(dir, line string) error {
	var path string
	var create func(name string) error
	if p, target, ok := strings.Cut(line, " -> "); ok {
		path, create = p, func(name string) error { return os.Symlink(target, name) }
	} else if p, text, ok := strings.Cut(line, ": "); ok {
		path, create = p, func(name string) error { return os.WriteFile(name, []byte(text+"\n"), 0o644) }
	} else if p, _, ok := strings.Cut(line, " ! "); ok {
		path, create = p, func(name string) error { return os.Symlink("nowhere", name) }
	} else {
		return fmt.Errorf("neither a file nor a link")
	}
	head, rest, ok := strings.Cut(path, "{")
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, head+"x")), 0o755); err != nil {
		return err
	}
	if !ok {
		return create(filepath.Join(dir, path))
	}
	numbers, tail, _ := strings.Cut(rest, "}")
	first, last, _ := strings.Cut(numbers, "..")
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || strings.Contains(tail, "/") {
		return fmt.Errorf("{%s}%s is not a range at the end", numbers, tail)
	}
	one := filepath.Join(dir, head+first+tail)
	if err := create(one); err != nil {
		return err
	}
	for i := from + 1; i <= to; i++ {
		if err := os.Link(one, filepath.Join(dir, head+strconv.Itoa(i)+tail)); err != nil {
			return err
		}
	}
	return nil
}

// The sysfs files of the devices of a network, in the form that Sysfs takes. The text of the files
// is that of drivers/infiniband/core/sysfs.c of Linux.

// WriteSysfs makes a tree of files like sysfs in a directory, with the present devices of the
// network. Code that lists devices from sysfs finds them there as uverbs0 and so on; Find returns
// the devices of these names.
func (n *Fabric) WriteSysfs(dir string) error { return Sysfs(dir, n.Listing()) }

// Listing returns the listing from which WriteSysfs makes the files.
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

// listing writes the files of the device. They are in the class folders of sysfs, or, if the device
// is on an adapter, in the folder of the adapter, with links from the class folders.
func (k *Kernel) listing(s *strings.Builder) {
	add := func(line string) { fmt.Fprintln(s, line) }
	line := func(path, format string, args ...any) { add(path + ": " + fmt.Sprintf(format, args...)) }
	node := fmt.Sprintf("uverbs%d", k.number)
	verbs, dir := "class/infiniband_verbs/"+node, "class/infiniband/"+k.cfg.Name
	if adapter := k.kind.adapter(k, add); adapter != "" {
		for _, class := range []string{verbs, dir} {
			_, path, _ := strings.Cut(class, "/")
			add(class + " -> ../../" + adapter + "/" + path)
			add(adapter + "/" + path + "/device -> ../../../" + filepath.Base(adapter))
		}
		verbs, dir = adapter+"/infiniband_verbs/"+node, adapter+"/infiniband/"+k.cfg.Name
	}
	line(verbs+"/ibdev", "%s", k.cfg.Name)
	_, version := k.kind.driver()
	line(verbs+"/abi_version", "%d", version)
	line(verbs+"/dev", "231:%d", 192+k.number)
	file := func(path, format string, args ...any) { line(dir+"/"+path, format, args...) }
	guid := fmt.Sprintf("%016x", k.cfg.NodeGUID)
	file("node_guid", "%s", groups(guid))
	file("sys_image_guid", "%s", groups(guid))
	file("node_type", "1: CA")
	file("node_desc", "%s", k.cfg.Name)
	k.kind.identity(file)
	for _, p := range k.ports {
		if p.TrafficClass != 0 {
			file(fmt.Sprintf("tc/%d/traffic_class", p.num), "Global tclass=%d", p.TrafficClass)
		}
		p.listing(func(path, format string, args ...any) {
			file(fmt.Sprintf("ports/%d/%s", p.num, path), format, args...)
		})
	}
}

// listing writes the files of the port.
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
			continue // the attribute files of an empty entry cannot be read
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

// rate returns the speed of all lanes in the format of rate_show.
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

// lanes maps the encoding of a port's width to the number of lanes.
var lanes = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}

// groups inserts a colon after every four digits.
func groups(digits string) string {
	var parts []string
	for ; len(digits) > 4; digits = digits[4:] {
		parts = append(parts, digits[:4])
	}
	return strings.Join(append(parts, digits), ":")
}
