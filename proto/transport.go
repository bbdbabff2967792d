package proto

import "fmt"

// TransportID is the checksum that identifies a transport in an address: the CRC-16/X-25 of
// the transport's name.
type TransportID uint16

// TransportIDOf returns the id of a transport name, as ucs_crc16_string does
// (src/ucs/algorithm/crc.c): initial value 0xffff, polynomial 0x8408 in
// reflected form, complemented.
func TransportIDOf(name string) TransportID {
	crc := uint16(0xffff)
	for i := 0; i < len(name); i++ {
		crc ^= uint16(name[i])
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0x8408
			} else {
				crc >>= 1
			}
		}
	}
	return TransportID(^crc)
}

// Ids of the software transports.
const (
	TransportTCP   TransportID = 0x19CF
	TransportSelf  TransportID = 0x7563
	TransportPosix TransportID = 0xD3A7
	TransportSysV  TransportID = 0x538D
	TransportCMA   TransportID = 0x8B47
)

// transportNames is used only for printing: ids without a name are compared like any other.
var transportNames = map[TransportID]string{
	TransportTCP:   "tcp",
	TransportSelf:  "self",
	TransportPosix: "posix",
	TransportSysV:  "sysv",
	TransportCMA:   "cma",
	0x83DD:         "xpmem",
	0x1377:         "knem",
	0x8A27:         "rc_verbs",
	0xD131:         "ud_verbs",
	0xD47A:         "rc_mlx5",
	0x397E:         "dc_mlx5",
	0x0FB3:         "ud_mlx5",
}

// component returns the name of the C UCX component that a transport belongs to, for printing:
// "ib" for transports over RDMA devices, else the name of the transport.
func (t TransportID) component() string {
	switch t {
	case 0x8A27, 0xD131, 0xD47A, 0x397E, 0x0FB3:
		return "ib"
	}
	return t.String()
}

// String returns the name of the transport if C UCX has it, or else the number.
func (t TransportID) String() string {
	if n, ok := transportNames[t]; ok {
		return n
	}
	return fmt.Sprintf("transport %#04x", uint16(t))
}
