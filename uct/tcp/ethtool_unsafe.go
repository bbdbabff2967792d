//go:build linux

package tcp

// Soundness: the kernel reads and writes at most the 44 bytes of an ethtool_cmd through the
// pointer in the request. The ethtool_cmd and the request live until the call returns.

import (
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolCmd is struct ethtool_cmd of linux/ethtool.h.
type ethtoolCmd struct {
	_             structs.HostLayout
	Cmd           uint32
	Supported     uint32
	Advertising   uint32
	Speed         uint16
	Duplex        uint8
	Port          uint8
	PhyAddress    uint8
	Transceiver   uint8
	Autoneg       uint8
	MdioSupport   uint8
	Maxtxpkt      uint32
	Maxrxpkt      uint32
	SpeedHi       uint16
	EthTpMdix     uint8
	EthTpMdixCtrl uint8
	LpAdvertising uint32
	Reserved      [2]uint32
}

// ifreqData is struct ifreq of linux/if.h with its pointer member.
type ifreqData struct {
	_    structs.HostLayout
	Name [unix.IFNAMSIZ]byte
	Data *ethtoolCmd
	_    [8 + pointer]byte // the union has larger members
}

// pointer is the size of a pointer, in bytes.
const pointer = unsafe.Sizeof(uintptr(0))

const (
	_ = uint(44 - unsafe.Sizeof(ethtoolCmd{}))
	_ = uint(unsafe.Sizeof(ethtoolCmd{}) - 44)
	_ = uint(24 + 2*pointer - unsafe.Sizeof(ifreqData{}))
	_ = uint(unsafe.Sizeof(ifreqData{}) - 24 - 2*pointer)
)

// ethtoolSpeed asks the driver of a device for the device's speed in Mbit/s. 0xffffffff means
// that the driver does not know the speed. fd is any socket.
func ethtoolSpeed(fd int, name string) (uint32, error) {
	cmd := ethtoolCmd{Cmd: unix.ETHTOOL_GSET}
	req := ifreqData{Data: &cmd}
	copy(req.Name[:len(req.Name)-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return 0, errno
	}
	return uint32(cmd.SpeedHi)<<16 | uint32(cmd.Speed), nil
}
