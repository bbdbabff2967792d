//go:build linux

package mlx5

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// ah is an address handle: the address vector of a destination, which each send entry contains
// (providers/mlx5/verbs.c, mlx5_create_ah).
type ah struct {
	provider.NoDetach
	ctx          *context
	av           abi.Mlx5WqeAv
	ethernet     bool
	portFromQPNs bool // the UDP source port is computed from the numbers of the two queue pairs
	answer       abi.Mlx5CreateAhResp
}

// rates has the adapter's codes for static rates, by enum ib_rate. A rate that the adapter does not
// have gets the code of the next higher rate, or 0, which means no limit.
var rates = [...]uint8{2: 7, 3: 8, 4: 9, 5: 10, 6: 11, 7: 12, 8: 13, 9: 14, 10: 15, 11: 11, 12: 13, 13: 15, 15: 9, 16: 15, 19: 9, 20: 13}

func rate(code uint8) uint8 {
	if int(code) < len(rates) {
		return rates[code]
	}
	return 0
}

const flowMask = 1<<20 - 1

func (c *context) NewAH(a *abi.AhAttr) (provider.AH, error) {
	p, err := c.port(a.PortNum)
	if err != nil {
		return nil, err
	}
	if a.IsGlobal == 0 && (p.ethernet || p.global) {
		return nil, fmt.Errorf("verbs: %s: an address without a GID, which port %d requires: %w", c.dev.Name(), a.PortNum, ucs.ErrInvalidParam)
	}
	h := &ah{ctx: c, ethernet: p.ethernet}
	av := &h.av
	flow := a.Grh.FlowLabel & flowMask
	route := uint32(a.Grh.SgidIndex)<<20 | flow
	if p.ethernet {
		kind, err := c.gidType(a.PortNum, a.Grh.SgidIndex)
		if err != nil {
			return nil, err
		}
		av.StatRateSl = rate(a.StaticRate)<<4 | a.Sl&7<<1
		if kind == abi.IB_UVERBS_GID_TYPE_ROCE_V2 {
			h.portFromQPNs = flow == 0
			av.Rlid.Put(sourcePort(flow))
		}
	} else {
		av.StatRateSl = rate(a.StaticRate)<<4 | a.Sl&0xf
		av.FlMlid = a.SrcPathBits & 0x7f
		av.Rlid.Put(a.Dlid)
		route |= 1 << 30
	}
	if a.IsGlobal != 0 {
		av.Tclass, av.HopLimit = a.Grh.TrafficClass, a.Grh.HopLimit
		av.GrhGidFl.Put(route)
		av.Rgid = a.Grh.Dgid
	}
	return h, nil
}

func (c *context) gidType(port, index uint8) (uint32, error) {
	var e abi.GidEntry
	err := c.dev.Do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY).
		Const(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64(port)).
		Const(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64(index)).
		U32(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0).
		Out(abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, abi.Bytes(&e)))
	return e.GidType, err
}

// sourcePort returns the UDP source port for a flow label, between 0xc000 and 0xffff (rdma-core,
// libibverbs/verbs.h, ibv_flow_label_to_udp_sport).
func sourcePort(flow uint32) uint16 { return uint16(0xc000 | (flow&0x3fff ^ flow>>14)) }

// flowOf returns the flow label for datagrams between two queue pairs. It is the same for each
// datagram, so that datagrams from one to the other stay in order (include/rdma/ib_verbs.h,
// rdma_calc_flow_label).
func flowOf(from, to uint32) uint32 {
	v := uint64(from) * uint64(to)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v) & flowMask
}

func (a *ah) Data() (in, out []byte) { return nil, abi.Bytes(&a.answer) }

// Attach stores the Ethernet address of the next hop, which the kernel has resolved.
func (a *ah) Attach() error {
	if !a.ethernet {
		return nil
	}
	c := a.ctx
	if c.answer.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH == 0 {
		return fmt.Errorf("verbs: %s: the kernel does not report the destination's Ethernet address for datagrams, which needs Linux 4.10: %w", c.dev.Name(), ucs.ErrUnsupported)
	}
	a.av.Rmac = a.answer.Dmac
	return nil
}

// put writes the address vector into av, which is part of a send entry. from and to are the numbers
// of the sending and the receiving queue pair.
func (a *ah) put(av *abi.Mlx5WqeAv, from, to, qkey uint32) {
	to &= 0xffffff
	*av = a.av
	av.Qkey.Put(qkey)
	av.DqpDct.Put(to | abi.MLX5_EXTENDED_UD_AV)
	if a.portFromQPNs {
		av.Rlid.Put(sourcePort(flowOf(from, to)))
	}
}
