//go:build linux

package rdmacm

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
)

// setOption sets an option of level RDMA_OPTION_ID.
func (id *ID) setOption(name uint32, value []byte) error {
	req := cmabi.SetOption{Id: id.handle, Level: cmabi.RDMA_OPTION_ID, Optname: name, Optlen: uint32(len(value))}
	return id.do(cmabi.RDMA_USER_CM_CMD_SET_OPTION, cmabi.Bytes(&req), value)
}

func intOption(on bool) []byte {
	return binary.NativeEndian.AppendUint32(nil, uint32(boolByte(on)))
}

// SetTypeOfService sets the type of service of the packets, before the route is
// resolved; RDMA_OPTION_ID_TOS.
func (id *ID) SetTypeOfService(tos uint8) error {
	return id.setOption(cmabi.RDMA_OPTION_ID_TOS, []byte{tos})
}

// SetReuseAddr allows other IDs with this option to bind the same address. It must be set before
// the address is bound; RDMA_OPTION_ID_REUSEADDR.
func (id *ID) SetReuseAddr(on bool) error {
	return id.setOption(cmabi.RDMA_OPTION_ID_REUSEADDR, intOption(on))
}

// SetAFOnly keeps an ID that is bound to the unspecified IPv6 address from also receiving
// IPv4; RDMA_OPTION_ID_AFONLY.
func (id *ID) SetAFOnly(on bool) error {
	return id.setOption(cmabi.RDMA_OPTION_ID_AFONLY, intOption(on))
}

// SetAckTimeout sets the timeout of the queue pair, 4.096 µs · 2^n, before it connects;
// RDMA_OPTION_ID_ACK_TIMEOUT, from Linux 5.1 on.
func (id *ID) SetAckTimeout(n uint8) error {
	return id.setOption(cmabi.RDMA_OPTION_ID_ACK_TIMEOUT, []byte{n})
}
