//go:build linux

package verbstest

import "fmt"

// What sysfs says of an adapter of ConnectX-5, and where: on a PCI bus that a machine is
// unlikely to have.

const pciDomain = "pci9000:00"

// adapter implements personality. The names are those of drivers/pci/pci-sysfs.c.
func (mlx5) adapter(k *Kernel, add func(line string)) string {
	slot := fmt.Sprintf("9000:%02x:00.0", 1+k.number)
	dir := "devices/" + pciDomain + "/" + slot
	class := 0x020000 // network controller
	if k.ports[0].InfiniBand {
		class = 0x020700
	}
	for _, f := range [][2]string{
		{"vendor", "0x15b3"}, {"device", "0x1017"}, {"subsystem_vendor", "0x15b3"}, {"subsystem_device", "0x0008"}, {"revision", "0x00"},
		{"class", fmt.Sprintf("%#08x", class)},
		{"modalias", fmt.Sprintf("pci:v000015B3d00001017sv000015B3sd00000008bc02sc%02Xi00", class>>8&0xff)},
		{"numa_node", "-1"}, {"local_cpus", "ffffffff"}, {"local_cpulist", "0-31"},
		{"current_link_speed", "8.0 GT/s PCIe"}, {"max_link_speed", "8.0 GT/s PCIe"}, {"current_link_width", "16"}, {"max_link_width", "16"},
	} {
		add(dir + "/" + f[0] + ": " + f[1])
	}
	add(dir + "/driver -> ../../../bus/pci/drivers/mlx5_core")
	add("bus/pci/devices/" + slot + " -> ../../../" + dir)
	return dir
}

// identity implements personality.
func (mlx5) identity(file func(path, format string, args ...any)) {
	file("fw_ver", "16.35.2000")
	file("hca_type", "MT4119")
	file("board_id", "MT_0000000008")
	file("hw_rev", "0")
}
