//go:build linux

package verbs

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// QPType is the transport service of a queue pair.
type QPType = provider.QPType

// Transport services; enum ib_uverbs_qp_type.
const (
	RC = provider.RC // reliable connection
	UC = provider.UC // unreliable connection
	UD = provider.UD // unreliable datagram
)

// QPCap holds the limits of a queue pair: MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, and
// MaxInline, in bytes; struct ibv_qp_cap.
type QPCap = provider.QPCap

func capToABI(c QPCap) abi.QpCap {
	return abi.QpCap{MaxSendWr: uint32(c.MaxSendWR), MaxRecvWr: uint32(c.MaxRecvWR), MaxSendSge: uint32(c.MaxSendSGE),
		MaxRecvSge: uint32(c.MaxRecvSGE), MaxInlineData: uint32(c.MaxInline)}
}

func capOfABI(c *abi.QpCap) QPCap {
	return QPCap{MaxSendWR: int(c.MaxSendWr), MaxRecvWR: int(c.MaxRecvWr), MaxSendSGE: int(c.MaxSendSge),
		MaxRecvSGE: int(c.MaxRecvSge), MaxInline: int(c.MaxInlineData)}
}

// QPInitAttr holds the parameters of CreateQP; struct ibv_qp_init_attr.
type QPInitAttr struct {
	Type   QPType
	SendCQ *CQ
	RecvCQ *CQ
	SRQ    *SRQ // nil: the queue pair has its own receive queue
	Cap    QPCap
	SigAll bool // every send generates a completion, as if it had SendSignaled
}

// QP is a queue pair. One goroutine at a time may post sends and one may post receives. No
// goroutine may post while the state of the queue pair is changed.
type QP struct {
	pd     *PD
	handle uint32
	id     uint64
	qpn    QPN
	typ    QPType
	cap    QPCap
	init   QPInitAttr
	state  atomic.Uint32 // the last known QPState
	drv    provider.QP
	post   Post
	mcast  mcastGroups
}

// CreateQP makes a queue pair in state QPReset; ibv_create_qp. The limits that QP.Cap returns may
// exceed the requested ones.
func (p *PD) CreateQP(a *QPInitAttr) (*QP, error) {
	c := a.Cap
	switch {
	case a.Type != RC && a.Type != UC && a.Type != UD:
		return nil, fmt.Errorf("verbs: %s: a queue pair of type %v: %w", p.ctx.Name(), a.Type, ucs.ErrUnsupported)
	case a.SendCQ == nil || a.RecvCQ == nil:
		return nil, fmt.Errorf("verbs: %s: a queue pair without completion queues: %w", p.ctx.Name(), ucs.ErrInvalidParam)
	case a.SendCQ.ctx != p.ctx || a.RecvCQ.ctx != p.ctx || a.SRQ != nil && a.SRQ.pd.ctx != p.ctx:
		return nil, fmt.Errorf("verbs: %s: a queue pair with queues of another Context: %w", p.ctx.Name(), ucs.ErrInvalidParam)
	case c.MaxSendWR < 0 || c.MaxRecvWR < 0 || c.MaxSendSGE < 0 || c.MaxRecvSGE < 0 || c.MaxInline < 0 ||
		int64(c.MaxSendWR|c.MaxRecvWR|c.MaxSendSGE|c.MaxRecvSGE|c.MaxInline) > 1<<31:
		return nil, fmt.Errorf("verbs: %s: a queue pair for %+v: %w", p.ctx.Name(), c, ucs.ErrInvalidParam)
	}
	init := provider.QPInit{Type: a.Type, Cap: c, SigAll: a.SigAll, SendCQ: a.SendCQ.drv, RecvCQ: a.RecvCQ.drv}
	if a.SRQ != nil {
		init.SRQ = a.SRQ.drv
	}
	if err := p.ctx.lacksType(a.Type); err != nil {
		return nil, err
	}
	drv, err := p.ctx.drv.NewQP(&init)
	if err != nil {
		return nil, err
	}
	q := &QP{pd: p, typ: a.Type, init: *a, drv: drv}
	id, err := p.ctx.register(q, phaseQP)
	if err != nil {
		drv.Detach()
		return nil, err
	}
	q.id = id
	in, out := drv.Data()
	want := capToABI(init.Cap)
	var got abi.QpCap
	var num [4]byte
	call := uverbs.NewCall(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE).
		New(abi.UVERBS_ATTR_CREATE_QP_HANDLE, &q.handle).
		Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, p.handle).
		Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, a.SendCQ.handle).
		Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, a.RecvCQ.handle).
		U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, q.id).
		In(abi.UVERBS_ATTR_CREATE_QP_CAP, abi.Bytes(&want)).
		Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(a.Type)).
		FD(abi.UVERBS_ATTR_CREATE_QP_EVENT_FD, p.ctx.events.number()).
		Out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.Bytes(&got)).
		Out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, num[:]).
		DriverIn(in).DriverOut(out)
	if a.SRQ != nil {
		call.Handle(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, a.SRQ.handle)
	}
	if a.SigAll {
		call.U32(abi.UVERBS_ATTR_CREATE_QP_FLAGS, abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
	}
	if err := p.ctx.do(call); err != nil {
		drv.Detach()
		p.ctx.unregister(q, q.id)
		return nil, queueLimit(err, in)
	}
	q.qpn = QPN(native32(num[:]))
	made := provider.QPMade{Handle: q.handle, QPN: q.qpn, Cap: capOfABI(&got)}
	if err := drv.Attach(&made); err != nil {
		q.Close()
		return nil, err
	}
	q.cap = made.Cap
	q.post.open(q, made.Sends)
	return q, nil
}

// QPN returns the number of the queue pair, which peers need.
func (q *QP) QPN() QPN { return q.qpn }

// Type returns the transport service.
func (q *QP) Type() QPType { return q.typ }

// PD returns the protection domain.
func (q *QP) PD() *PD { return q.pd }

// SendCQ returns the completion queue of sends.
func (q *QP) SendCQ() *CQ { return q.init.SendCQ }

// RecvCQ returns the completion queue of receives.
func (q *QP) RecvCQ() *CQ { return q.init.RecvCQ }

// SRQ returns the shared receive queue, nil if there is none.
func (q *QP) SRQ() *SRQ { return q.init.SRQ }

// Cap returns the limits of the queue pair.
func (q *QP) Cap() QPCap { return q.cap }

// setState stores the state, and the set of operations that can be posted in that state.
func (q *QP) setState(s QPState) {
	q.state.Store(uint32(s))
	ops := uint32(0)
	if s >= QPRTS {
		ops = q.pd.ctx.operations(q.typ)
	}
	q.post.ops.Store(ops)
}

// State returns the state that the queue pair was last set to, or that Query has read.
func (q *QP) State() QPState { return QPState(q.state.Load()) }

// PostRecv posts work requests to the receive queue in order and returns the number posted;
// ibv_post_recv. It makes no system call. If the queue is full, the error is ucs.ErrNoResource.
func (q *QP) PostRecv(wr []RecvWR) (int, error) {
	if q.state.Load() == uint32(QPReset) {
		return 0, errState
	}
	return q.drv.PostRecv(wr)
}

// Close destroys the queue pair; ibv_destroy_qp. Outstanding requests do not complete. Completions
// that exist can still be polled, so a message that was acknowledged to its sender is not lost, on
// any device. (libmlx5 drops such completions.) The kernel may give the number of the queue pair to
// a new one, so a program that closes a queue pair before it has polled all completions must
// distinguish the completions of the two queue pairs by the IDs of the requests. All this also
// applies to Modify to QPReset.
//
// Close fails with ucs.ErrBusy while the queue pair is attached to multicast groups.
func (q *QP) Close() error {
	var resp abi.DestroyQpResp
	return q.pd.ctx.destroy(q, q.id, &q.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, handle).
			Out(abi.UVERBS_ATTR_DESTROY_QP_RESP, abi.Bytes(&resp))
	})
}

func (q *QP) abandon() {
	q.setState(QPReset) // a state in which nothing can be posted
	q.post.drop()
	q.post.mem = nil
	q.drv.Detach()
}
