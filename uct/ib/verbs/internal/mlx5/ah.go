//go:build linux

package mlx5

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// ah is where datagrams go, as it is in every entry (providers/mlx5/verbs.c,
// mlx5_create_ah).
type ah struct {
	provider.NoDetach
	ctx      *context
	av       abi.Mlx5WqeAv
	ethernet bool
	spread   bool // the UDP port it is from depends on who sends and who gets it
	answer   abi.Mlx5CreateAhResp
}

// rates are the codes of enum ib_rate for static rates, on a best effort basis; 0 is no
// limit.
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
			h.spread = flow == 0
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

// sourcePort is the UDP port of a flow, between 0xc000 and 0xffff (rdma-core,
// libibverbs/verbs.h, ibv_flow_label_to_udp_sport).
func sourcePort(flow uint32) uint16 { return uint16(0xc000 | (flow&0x3fff ^ flow>>14)) }

// flowOf is a flow label for two queue pairs: what one sends to the other stays in
// order (include/rdma/ib_verbs.h, rdma_calc_flow_label).
func flowOf(from, to uint32) uint32 {
	v := uint64(from) * uint64(to)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v) & flowMask
}

func (a *ah) Data() (in, out []byte) { return nil, abi.Bytes(&a.answer) }

// Attach takes the Ethernet address of the next hop, which the kernel has looked up.
func (a *ah) Attach() error {
	if !a.ethernet {
		return nil
	}
	c := a.ctx
	if c.answer.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH == 0 {
		return fmt.Errorf("verbs: %s: the kernel does not say which Ethernet address datagrams go to, which it does from Linux 4.10 on: %w", c.dev.Name(), ucs.ErrUnsupported)
	}
	a.av.Rmac = a.answer.Dmac
	return nil
}

// put writes the address into an entry of the queue pair from.
func (a *ah) put(av *abi.Mlx5WqeAv, from, to, qkey uint32) {
	to &= 0xffffff
	*av = a.av
	av.Qkey.Put(qkey)
	av.DqpDct.Put(to | abi.MLX5_EXTENDED_UD_AV)
	if a.spread {
		av.Rlid.Put(sourcePort(flowOf(from, to)))
	}
}
