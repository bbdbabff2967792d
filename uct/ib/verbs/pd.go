//go:build linux

package verbs

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// PD is a protection domain. Memory regions, queue pairs and address handles can be used together
// only if they belong to the same domain. Any goroutine may use it.
type PD struct {
	ctx    *Context
	handle uint32
	id     uint64
}

// AllocPD makes a protection domain; ibv_alloc_pd.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{ctx: c}
	id, err := c.register(p, phaseBase)
	if err != nil {
		return nil, err
	}
	p.id = id
	var resp abi.AllocPdResp
	if err := c.invoke(abi.IB_USER_VERBS_CMD_ALLOC_PD, abi.Bytes(&abi.AllocPd{}), abi.Bytes(&resp)); err != nil {
		c.unregister(p, p.id)
		return nil, err
	}
	p.handle = resp.PdHandle
	return p, nil
}

// Context returns the device of the protection domain.
func (p *PD) Context() *Context { return p.ctx }

// Close deallocates the protection domain; ibv_dealloc_pd. It fails with ucs.ErrBusy while
// the domain contains objects.
func (p *PD) Close() error {
	return p.ctx.destroy(p, p.id, &p.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_PD_HANDLE, handle)
	})
}

func (p *PD) abandon() {}
