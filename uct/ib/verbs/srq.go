//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// SRQInitAttr holds the parameters of CreateSRQ; struct ibv_srq_init_attr.
type SRQInitAttr struct {
	MaxWR  int // capacity, in work requests
	MaxSGE int // scatter/gather elements of each work request
	Limit  int // see SRQ.SetLimit
}

// SRQ is a shared receive queue. One goroutine at a time may post to it or resize it.
type SRQ struct {
	pd     *PD
	handle uint32
	id     uint64
	attr   SRQInitAttr
	drv    provider.SRQ
}

// CreateSRQ makes a shared receive queue; ibv_create_srq.
func (p *PD) CreateSRQ(a *SRQInitAttr) (*SRQ, error) {
	if a.MaxWR < 1 || a.MaxSGE < 0 || a.Limit < 0 || int64(a.MaxWR|a.MaxSGE|a.Limit) > 1<<31 {
		return nil, fmt.Errorf("verbs: %s: a shared receive queue of %+v: %w", p.ctx.Name(), *a, ucs.ErrInvalidParam)
	}
	if err := p.ctx.lacks[provider.FeatureSRQ]; err != nil {
		return nil, err
	}
	init := provider.SRQInit{MaxWR: a.MaxWR, MaxSGE: a.MaxSGE}
	drv, err := p.ctx.drv.NewSRQ(&init)
	if err != nil {
		return nil, err
	}
	s := &SRQ{pd: p, drv: drv}
	id, err := p.ctx.register(s, phaseUsed)
	if err != nil {
		drv.Detach()
		return nil, err
	}
	s.id = id
	in, out := drv.Data()
	var wr, sge, num [4]byte
	err = p.ctx.do(uverbs.NewCall(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE).
		New(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, &s.handle).
		Handle(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, p.handle).
		U64(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, s.id).
		U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, uint32(init.MaxWR)).
		U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, uint32(init.MaxSGE)).
		U32(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, uint32(a.Limit)).
		Const(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, abi.IB_UVERBS_SRQT_BASIC).
		FD(abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD, p.ctx.events.number()).
		Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, wr[:]).
		Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, sge[:]).
		Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, num[:]).
		DriverIn(in).DriverOut(out))
	if err != nil {
		drv.Detach()
		p.ctx.unregister(s, s.id)
		return nil, queueLimit(err, in)
	}
	made := provider.SRQMade{Handle: s.handle, Number: native32(num[:]), MaxWR: int(native32(wr[:])), MaxSGE: int(native32(sge[:]))}
	if err := drv.Attach(&made); err != nil {
		s.Close()
		return nil, err
	}
	s.attr = SRQInitAttr{MaxWR: made.MaxWR, MaxSGE: made.MaxSGE, Limit: a.Limit}
	return s, nil
}

// PD returns the protection domain.
func (s *SRQ) PD() *PD { return s.pd }

// MaxWR returns the number of work requests that the queue has room for.
func (s *SRQ) MaxWR() int { return s.attr.MaxWR }

// MaxSGE returns the largest number of scatter/gather elements of a work request.
func (s *SRQ) MaxSGE() int { return s.attr.MaxSGE }

// PostRecv posts work requests in order and returns the number posted; ibv_post_srq_recv. It makes
// no system call. If the queue is full, the error is ucs.ErrNoResource.
func (s *SRQ) PostRecv(wr []RecvWR) (int, error) { return s.drv.PostRecv(wr) }

// SetLimit requests one EventSRQLimitReached when fewer than limit work requests are left;
// ibv_modify_srq. A limit of 0 disables the event.
func (s *SRQ) SetLimit(limit int) error {
	if limit < 0 || limit > s.attr.MaxWR {
		return fmt.Errorf("verbs: %s: a limit of %d for %d work requests: %w", s.pd.ctx.Name(), limit, s.attr.MaxWR, ucs.ErrInvalidParam)
	}
	req := abi.ModifySrq{SrqHandle: s.handle, AttrMask: attrLimit, SrqLimit: uint32(limit)}
	return s.pd.ctx.do(uverbs.Invoke(abi.IB_USER_VERBS_CMD_MODIFY_SRQ, abi.Bytes(&req), nil).DriverIn(s.drv.LimitData()))
}

// Resize changes the capacity to at least maxWR work requests; ibv_modify_srq. It fails if the
// queue holds more requests, or if its limit is higher. Posted requests stay.
func (s *SRQ) Resize(maxWR int) error {
	if maxWR < 1 || int64(maxWR) > 1<<31 {
		return fmt.Errorf("verbs: %s: a shared receive queue for %d work requests: %w", s.pd.ctx.Name(), maxWR, ucs.ErrInvalidParam)
	}
	if s.handle == noHandle {
		return errClosed
	}
	if err := s.pd.ctx.lacks[provider.FeatureResizeSRQ]; err != nil {
		return err
	}
	next, err := s.drv.Resize(&maxWR)
	if err != nil {
		return err
	}
	in, out := next.Data()
	req := abi.ModifySrq{SrqHandle: s.handle, AttrMask: attrMaxWR, MaxWr: uint32(maxWR)}
	call := uverbs.Invoke(abi.IB_USER_VERBS_CMD_MODIFY_SRQ, abi.Bytes(&req), nil)
	if err := s.pd.ctx.do(call.DriverIn(in).DriverOut(out)); err != nil {
		next.Failed()
		return err
	}
	a, err := s.Query()
	if e := next.Done(&a.MaxWR); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	s.attr.MaxWR = a.MaxWR
	return nil
}

// Attributes of a shared receive queue that MODIFY_SRQ changes; enum ib_srq_attr_mask, ib_verbs.h.
const (
	attrMaxWR = 1 << 0
	attrLimit = 1 << 1
)

// Query reads the attributes from the kernel; ibv_query_srq. Limit is 0 after the kernel has sent
// EventSRQLimitReached.
func (s *SRQ) Query() (SRQInitAttr, error) {
	var resp abi.QuerySrqResp
	if err := s.pd.ctx.invoke(abi.IB_USER_VERBS_CMD_QUERY_SRQ, abi.Bytes(&abi.QuerySrq{SrqHandle: s.handle}), abi.Bytes(&resp)); err != nil {
		return SRQInitAttr{}, err
	}
	return SRQInitAttr{MaxWR: int(resp.MaxWr), MaxSGE: int(resp.MaxSge), Limit: int(resp.SrqLimit)}, nil
}

// Close destroys the queue; ibv_destroy_srq. It fails with ucs.ErrBusy while queue pairs
// use it.
func (s *SRQ) Close() error {
	var resp abi.DestroySrqResp
	return s.pd.ctx.destroy(s, s.id, &s.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE, handle).
			Out(abi.UVERBS_ATTR_DESTROY_SRQ_RESP, abi.Bytes(&resp))
	})
}

func (s *SRQ) abandon() { s.drv.Detach() }
