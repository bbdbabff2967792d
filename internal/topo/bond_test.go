package topo

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBondPorts: a bond has as many links as its aggregator has ports, and so do devices on top of
// the bond.
func TestBondPorts(t *testing.T) {
	root := t.TempDir()
	net := filepath.Join(root, "sys/class/net")
	for file, text := range map[string]string{
		"bond0/bonding/ad_num_ports": "2\n", "bond1/bonding/ad_num_ports": "0\n", "bond2/bonding/mode": "active-backup 1\n",
		"bond3/bonding/ad_num_ports": "-3", "bond4/bonding/ad_num_ports": "99999999999", "nonsense": "",
		"eth0/ifindex": "2\n", "eth1/ifindex": "3\n", "vlan0/ifindex": "4\n", "top/ifindex": "5\n", "loop/ifindex": "6\n",
		"bond0/ifindex": "10\n", "bond1/ifindex": "11\n", "bond2/ifindex": "12\n", "bond3/ifindex": "13\n", "bond4/ifindex": "14\n",
	} {
		name := filepath.Join(net, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"bond0/lower_eth0": "eth0", "bond0/lower_eth1": "eth1", "vlan0/lower_bond0": "bond0", "top/lower_vlan0": "vlan0", "loop/lower_loop": "loop",
	} {
		if err := os.Symlink(filepath.Join(net, to), filepath.Join(net, link)); err != nil {
			t.Fatal(err)
		}
	}
	for index, want := range map[int]int{10: 2, 4: 2, 5: 2, 11: 1, 12: 1, 13: 1, 14: 1, 2: 1, 6: 1, 99: 1} {
		if n := bondPorts(root, index); n != want {
			t.Errorf("interface %d: %d links, want %d", index, n, want)
		}
	}
}
