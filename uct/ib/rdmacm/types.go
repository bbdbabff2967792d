//go:build linux

package rdmacm

import (
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// PortSpace is a space of port numbers. Ports of different spaces are independent of each
// other and of those of sockets.
type PortSpace uint16

// Port spaces; enum rdma_port_space, rdma_cma.h.
const (
	PortSpaceTCP   PortSpace = cmabi.RDMA_PS_TCP   // reliable connections
	PortSpaceUDP   PortSpace = cmabi.RDMA_PS_UDP   // datagrams: the handshake exchanges address, queue pair and key
	PortSpaceIB    PortSpace = cmabi.RDMA_PS_IB    // any type of queue pair
	PortSpaceIPoIB PortSpace = cmabi.RDMA_PS_IPOIB // datagrams with IP over InfiniBand
)

// String returns the name.
func (p PortSpace) String() string {
	switch p {
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	case PortSpaceIPoIB:
		return "IPoIB"
	}
	return fmt.Sprintf("PortSpace(%#x)", uint16(p))
}

// Limits of the private data of handshake messages on InfiniBand and RoCE with IP
// addresses, in bytes (ib_cm.h, and struct cma_hdr in drivers/infiniband/core/cma.c, which
// takes 36 bytes of a request).
const (
	MaxConnectData   = 56  // limit of Connect
	MaxAcceptData    = 196 // limit of Accept
	MaxRejectData    = 148 // limit of Reject
	MaxConnectDataUD = 180 // limit of Connect in PortSpaceUDP
	MaxAcceptDataUD  = 136 // limit of Accept and Reject in PortSpaceUDP
	maxPrivateData   = 255 // room in the kernel's interface
	maxQPNumber      = 1<<24 - 1
	defaultRdAtomic  = 16
	defaultRetry     = 7
)

// ConnParam holds the parameters that one side of a handshake sends to the other; struct
// rdma_conn_param. In an event, ResponderResources and InitiatorDepth have already been exchanged,
// so that they are the reader's own limits.
type ConnParam struct {
	PrivateData        []byte    // see MaxConnectData and the constants below it
	ResponderResources uint8     // reads and atomics of the other side that this side has room for
	InitiatorDepth     uint8     // reads and atomics that this side may have in flight
	FlowControl        bool      // by the hardware
	RetryCount         uint8     // of Connect: up to 7, for both sides; rxe retries forever at 7
	RNRRetryCount      uint8     // peer's retries when no receive is posted here; 7 means forever
	SRQ                bool      // the queue pair has a shared receive queue
	QPN                verbs.QPN // the queue pair
}

// DefaultConnParam returns the defaults of librdmacm, except the number of reads and
// atomics, which librdmacm reads from the device.
func DefaultConnParam() ConnParam {
	return ConnParam{ResponderResources: defaultRdAtomic, InitiatorDepth: defaultRdAtomic, RetryCount: defaultRetry,
		RNRRetryCount: defaultRetry}
}

// UDParam describes a peer to send datagrams to, or a multicast group, as an event reports
// it; struct rdma_ud_param.
type UDParam struct {
	PrivateData []byte
	AH          verbs.AHAttr
	QPN         verbs.QPN
	QKey        verbs.QKey
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// abi converts p to the kernel's struct. The length of the data has been checked.
func (p *ConnParam) abi() cmabi.ConnParam {
	a := cmabi.ConnParam{
		QpNum: uint32(p.QPN), PrivateDataLen: uint8(len(p.PrivateData)), Srq: boolByte(p.SRQ),
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, FlowControl: boolByte(p.FlowControl),
		RetryCount: p.RetryCount, RnrRetryCount: p.RNRRetryCount, Valid: 1,
	}
	copy(a.PrivateData[:], p.PrivateData)
	return a
}

func connParam(a *cmabi.ConnParam) ConnParam {
	return ConnParam{
		PrivateData: privateData(&a.PrivateData, a.PrivateDataLen), ResponderResources: a.ResponderResources,
		InitiatorDepth: a.InitiatorDepth, FlowControl: a.FlowControl != 0, RetryCount: a.RetryCount,
		RNRRetryCount: a.RnrRetryCount, SRQ: a.Srq != 0, QPN: verbs.QPN(a.QpNum & maxQPNumber),
	}
}

func udParam(a *cmabi.UdParam) UDParam {
	return UDParam{
		PrivateData: privateData(&a.PrivateData, a.PrivateDataLen), AH: ahAttr(&a.AhAttr),
		QPN: verbs.QPN(a.QpNum & maxQPNumber), QKey: verbs.QKey(a.Qkey),
	}
}

func ahAttr(a *abi.AhAttr) verbs.AHAttr {
	return verbs.AHAttr{
		Global: a.IsGlobal != 0, DGID: a.Grh.Dgid, SGIDIndex: a.Grh.SgidIndex, HopLimit: a.Grh.HopLimit,
		TrafficClass: a.Grh.TrafficClass, FlowLabel: a.Grh.FlowLabel, DLID: verbs.LID(a.Dlid), SL: a.Sl,
		SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, Port: a.PortNum,
	}
}

// privateData copies received private data. The length has 8 bits, so it is within the array.
func privateData(b *[cmabi.RDMA_MAX_PRIVATE_DATA]byte, n uint8) []byte {
	if n == 0 {
		return nil
	}
	return append([]byte(nil), b[:n]...)
}
