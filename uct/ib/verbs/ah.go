//go:build linux

package verbs

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// AHAttr is the path to a remote port; struct ibv_ah_attr. With RoCE, Global must be set, DLID is
// not used, and only the low 3 bits of SL are used.
type AHAttr struct {
	Global       bool // the fields from DGID to FlowLabel are valid
	DGID         GID
	SGIDIndex    uint8 // index in the local GID table; the entry's type selects RoCE v1 or v2
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32
	DLID         LID
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	Port         uint8 // number of the local port
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (a *AHAttr) ah() abi.AhAttr {
	return abi.AhAttr{
		Grh:  abi.GlobalRoute{Dgid: a.DGID, FlowLabel: a.FlowLabel, SgidIndex: a.SGIDIndex, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass},
		Dlid: uint16(a.DLID), Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, IsGlobal: flag(a.Global), PortNum: a.Port,
	}
}

func (a *AHAttr) dest() abi.QpDest {
	return abi.QpDest{
		Dgid: a.DGID, FlowLabel: a.FlowLabel, Dlid: uint16(a.DLID), SgidIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, IsGlobal: flag(a.Global),
		PortNum: a.Port,
	}
}

func ahAttr(d *abi.QpDest) AHAttr {
	return AHAttr{
		Global: d.IsGlobal != 0, DGID: d.Dgid, SGIDIndex: d.SgidIndex, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass,
		FlowLabel: d.FlowLabel, DLID: LID(d.Dlid), SL: d.Sl, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate, Port: d.PortNum,
	}
}

// AH is an address handle: the destination of datagrams. Any goroutine may use it.
type AH struct {
	pd     *PD
	handle uint32
	id     uint64
	drv    provider.AH
}

// CreateAH makes an address handle; ibv_create_ah. With RoCE the kernel resolves the neighbor's
// address, which may take seconds if the neighbor does not answer.
func (p *PD) CreateAH(attr *AHAttr) (*AH, error) {
	if err := p.ctx.lacks[provider.FeatureUD]; err != nil {
		return nil, err
	}
	to := attr.ah()
	drv, err := p.ctx.drv.NewAH(&to)
	if err != nil {
		return nil, err
	}
	a := &AH{pd: p, drv: drv}
	id, err := p.ctx.register(a, phaseUsed)
	if err != nil {
		drv.Detach()
		return nil, err
	}
	a.id = id
	in, out := drv.Data()
	req := abi.CreateAh{UserHandle: a.id, PdHandle: p.handle, Attr: to}
	var resp abi.CreateAhResp
	call := uverbs.Invoke(abi.IB_USER_VERBS_CMD_CREATE_AH, abi.Bytes(&req), abi.Bytes(&resp))
	if err := p.ctx.do(call.DriverIn(in).DriverOut(out)); err != nil {
		drv.Detach()
		p.ctx.unregister(a, a.id)
		return nil, err
	}
	a.handle = resp.AhHandle
	if err := drv.Attach(); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Close destroys the address handle; ibv_destroy_ah. The datagrams that use it must have completed.
func (a *AH) Close() error {
	return a.pd.ctx.destroy(a, a.id, &a.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, handle)
	})
}

func (a *AH) abandon() { a.drv.Detach() }
