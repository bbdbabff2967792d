package topo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// BondPorts returns the number of links over which the packets of a network interface, given by its
// index, are spread: the number of ports in the aggregator of a bond in mode 802.3ad, if the
// interface is such a bond or is stacked on one, else 1 (ucs_netif_bond_ad_num_ports in
// src/ucs/sys/sock.c).
func BondPorts(index int) int { return bondPorts("/", index) }

// maxStacked bounds the number of stacked interfaces that are followed.
const maxStacked = 8

// bondPorts is BondPorts for a file system at root.
func bondPorts(root string, index int) int {
	dir := filepath.Join(root, "sys/class/net")
	all, _ := os.ReadDir(dir)
	k := slices.IndexFunc(all, func(e os.DirEntry) bool {
		return strings.TrimSpace(readSmall(filepath.Join(dir, e.Name(), "ifindex"))) == strconv.Itoa(index)
	})
	if k < 0 {
		return 1
	}
	dir = filepath.Join(dir, all[k].Name())
	for range maxStacked {
		text := strings.TrimSpace(readSmall(filepath.Join(dir, "bonding/ad_num_ports")))
		if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
			return int(n)
		}
		list, _ := os.ReadDir(dir)
		k := slices.IndexFunc(list, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "lower_") })
		if k < 0 {
			break
		}
		dir = filepath.Join(dir, list[k].Name())
	}
	return 1
}
