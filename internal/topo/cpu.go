package topo

import (
	"path/filepath"
	"strings"
)

// Unknown is the name of a processor's vendor or model, or of a product, that is not known.
const Unknown = "unknown"

// vendors maps the kernel's names of vendors in /proc/cpuinfo to those of C UCX
// (ucs_cpu_vendor_name in src/ucs/arch/cpu.c, ucs_arch_get_cpu_vendor in
// src/ucs/arch/x86_64/cpu.c and aarch64/cpu.h). C UCX takes the implementer Arm, 0x41, for Nvidia.
var vendors = map[string]string{
	"GenuineIntel": "Intel",
	"AuthenticAMD": "AMD",
	"CentaurHauls": "Zhaoxin",
	"Shanghai":     "Zhaoxin",
	"0x41":         "Nvidia",
	"0x46":         "Fujitsu ARM",
	"0x4e":         "Nvidia",
}

// CPU returns the vendor of the first processor, under the name that C UCX uses, and the model, as
// the kernel names it. root is the root of the file system, "/" except in tests.
func CPU(root string) (vendor, model string) {
	vendor, model = Unknown, Unknown
	for line := range strings.Lines(readSmall(filepath.Join(root, "proc/cpuinfo"))) {
		key, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok {
			break // the end of the first processor
		}
		known := vendors[value]
		switch strings.TrimSpace(key) {
		case "vendor_id":
			if known != "" {
				vendor = known
			}
		case "CPU implementer":
			if vendor = known; known == "" {
				vendor = "Generic ARM"
			}
		case "model name":
			model = value
		case "CPU part":
			model = "ARM part " + value
		}
	}
	return vendor, model
}

// Product returns the name of the machine, which the firmware reports. root is as for CPU.
func Product(root string) string {
	if name := strings.TrimSpace(readSmall(filepath.Join(root, "sys/devices/virtual/dmi/id/product_name"))); name != "" {
		return name
	}
	return Unknown
}
