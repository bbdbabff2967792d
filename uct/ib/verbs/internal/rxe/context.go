//go:build linux

package rxe

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

func init() {
	provider.Register(&provider.Provider{Name: "rxe", ID: abi.RDMA_DRIVER_RXE,
		MinABI: abi.RXE_UVERBS_ABI_VERSION, MaxABI: abi.RXE_UVERBS_ABI_VERSION, Open: open})
}

// context is an open device. The kernel rounds the requested sizes, and its answers need no
// correction.
type context struct {
	provider.NoData
	provider.NoAttach
	provider.LacksNothing
	dev   provider.Device
	cells slab // memory for responses that the kernel writes to an address in a request
}

func open(d provider.Device) (provider.Context, error) { return &context{dev: d}, nil }

func (c *context) Detach() { c.cells.free() }

func (c *context) NewCQ(*provider.CQInit) (provider.CQ, error) { return &cq{ctx: c}, nil }

func (c *context) NewSRQ(*provider.SRQInit) (provider.SRQ, error) { return &srq{ctx: c}, nil }

func (c *context) NewQP(a *provider.QPInit) (provider.QP, error) {
	return &qp{ctx: c, typ: a.Type, shared: a.SRQ != nil}, nil
}

func (c *context) NewAH(*abi.AhAttr) (provider.AH, error) { return &ah{ctx: c}, nil }

// ah is an address handle. The driver numbers address handles; send requests contain the number.
type ah struct {
	provider.NoDetach
	ctx  *context
	resp abi.RxeCreateAhResp
}

func (a *ah) Data() (in, out []byte) { return nil, abi.Bytes(&a.resp) }

func (a *ah) Attach() error {
	if a.resp.AhNum == 0 {
		return fmt.Errorf("verbs: %s: datagrams with rxe need Linux 5.16, which numbers addresses: %w", a.ctx.dev.Name(), ucs.ErrUnsupported)
	}
	return nil
}
