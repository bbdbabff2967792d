//go:build linux

package ib

// priorities are the priorities of mlx5 adapters, by part number, which is the PCI device ID.
// Of lanes with the same score, those over the adapter with the higher priority are chosen.
// Both sides must use the same values (uct_ib_builtin_device_specs, ib_device.c; 1.13.1 has the
// same values for the adapters that it knows). Other devices have 0.
var priorities = map[uint32]uint8{
	0x1011: 20,             // Connect-IB
	0x1013: 30, 0x1014: 29, // ConnectX-4, and its virtual functions
	0x1015: 28, 0x1016: 28, // ConnectX-4 Lx
	0x1017: 38, 0x1018: 39, // ConnectX-5
	0x1019: 40, 0x101a: 36, // ConnectX-5 Ex
	0x101b: 50, 0x101c: 50, // ConnectX-6
	0x101d: 60, 0x101e: 60, // ConnectX-6 Dx
	0x101f: 45,                         // ConnectX-6 Lx
	0x1021: 70,                         // ConnectX-7
	0x1023: 80,                         // ConnectX-8
	0x1025: 90,                         // ConnectX-9
	0xa2d2: 37,                         // BlueField; C UCX lists it a second time, after this, with 41
	0xa2d3: 41, 0xa2d6: 61, 0xa2dc: 61, // its virtual functions, BlueField-2 and 3
}

// priority returns the priority of the device.
func (d *Domain) priority() uint8 {
	if d.ctx.Driver() != "mlx5" {
		return 0
	}
	return priorities[d.caps.VendorPartID]
}
