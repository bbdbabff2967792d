package verbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
)

// The driver of soft-RoCE, rdma_rxe: queues are rings that the kernel makes and
// both sides map. Nothing but sending and arming needs a system call.
func init() {
	register(&driver{name: "rxe", id: abi.RDMA_DRIVER_RXE, minABI: abi.RXE_UVERBS_ABI_VERSION, maxABI: abi.RXE_UVERBS_ABI_VERSION,
		open: func(c *Context) driverContext { return &rxeContext{c} }})
}

type rxeContext struct{ c *Context }

func (r *rxeContext) data() (in, out []byte)        { return nil, nil }
func (r *rxeContext) newCQ(int) driverCQ            { return &rxeCQ{} }
func (r *rxeContext) newQP(*QPInitAttr) driverQP    { return &rxeQP{} }
func (r *rxeContext) newSRQ(*SRQInitAttr) driverSRQ { return &rxeSRQ{} }
func (r *rxeContext) newAH() driverAH               { return &rxeAH{} }

// rxeCQ is a ring of completions.
type rxeCQ struct {
	resp abi.RxeCreateCqResp
	cq   *CQ
	ring rxeRing
}

func (r *rxeCQ) data() (in, out []byte) { return nil, abi.Bytes(&r.resp) }
func (r *rxeCQ) detach()                { r.ring.unmap() }
func (r *rxeCQ) resize(int) driverCQ    { return &rxeCQ{} }

func (r *rxeCQ) attach(cq *CQ) error {
	r.cq = cq
	return r.ring.mmap(cq.ctx.file, r.resp.Mi, len(abi.Bytes(&abi.Wc{})))
}

// arm is a call of the kernel's. It does not count what has come before.
func (r *rxeCQ) arm(solicited bool) error {
	req := abi.ReqNotifyCq{CqHandle: r.cq.handle}
	if solicited {
		req.SolicitedOnly = 1
	}
	return r.cq.ctx.invoke(abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, abi.Bytes(&req), nil)
}

// rxeSRQ is a ring of receives.
type rxeSRQ struct {
	resp  abi.RxeCreateSrqResp
	rq    rxeRecvQueue
	cells *slab
	cell  []byte // where MODIFY_SRQ names a new ring
}

func (r *rxeSRQ) postRecv(wr []RecvWR) (int, error) { return r.rq.post(wr) }

func (r *rxeSRQ) data() (in, out []byte) {
	if r.cell != nil {
		return abi.Bytes(&abi.RxeModifySrqCmd{MmapInfoAddr: addressOf(r.cell)}), nil
	}
	return nil, abi.Bytes(&r.resp)
}

func (r *rxeSRQ) attach(s *SRQ) error {
	if r.cell != nil {
		copy(abi.Bytes(&r.resp.Mi), r.cell)
	}
	return r.rq.mmap(s.pd.ctx.file, r.resp.Mi, s.attr.MaxSGE)
}

func (r *rxeSRQ) detach() {
	r.rq.ring.unmap()
	if r.cell != nil {
		r.cells.put(r.cell)
		r.cell = nil
	}
}

// resize refuses what the kernel would: a resize that fails costs rdma_rxe the queue
// (rxe_srq_from_attr, drivers/infiniband/sw/rxe/rxe_srq.c).
func (r *rxeSRQ) resize(s *SRQ, maxWR int) (driverSRQ, error) {
	if n := r.rq.ring.held(); maxWR < n {
		return nil, fmt.Errorf("verbs: %s: a shared receive queue for %d work requests, with %d in it: %w", s.pd.ctx.Name(), maxWR, n, ucs.ErrInvalidParam)
	}
	cell, err := s.pd.ctx.cells.get()
	if err != nil {
		return nil, err
	}
	return &rxeSRQ{cells: &s.pd.ctx.cells, cell: cell}, nil
}

// modifyData is where the kernel would write the place of a new ring, which it does
// only if the size changes.
func (r *rxeSRQ) modifyData() []byte { return abi.Bytes(&abi.RxeModifySrqCmd{}) }

// rxeQP is a ring of sends, and one of receives unless they are shared.
type rxeQP struct {
	resp abi.RxeCreateQpResp
	qp   *QP
	sq   rxeSendQueue
	rq   rxeRecvQueue
	bell []byte // what write(2) takes
	file uverbs.File
	slow bool // write(2) is refused; of who posts sends
}

func (r *rxeQP) data() (in, out []byte) { return nil, abi.Bytes(&r.resp) }

func (r *rxeQP) attach(q *QP) error {
	r.qp, r.file = q, q.pd.ctx.file
	if err := r.sq.mmap(r.file, r.resp.SqMi, q); err != nil {
		return err
	}
	if q.init.SRQ == nil {
		if err := r.rq.mmap(r.file, r.resp.RqMi, q.cap.MaxRecvSGE); err != nil {
			return err
		}
	}
	return r.newBell()
}

func (r *rxeQP) detach() {
	r.sq.ring.unmap()
	r.rq.ring.unmap()
	if r.bell != nil {
		r.qp.pd.ctx.cells.put(r.bell[:cellSize])
		r.bell = nil
	}
}

func (r *rxeQP) postRecv(wr []RecvWR) (int, error) { return r.rq.post(wr) }

func (r *rxeQP) postSend(wr []SendWR) (int, error) {
	n, err := r.sq.post(wr)
	if n == 0 && len(wr) > 0 {
		return n, err
	}
	if !r.slow {
		_, e := r.file.Write(r.bell)
		if e == 0 {
			return n, err
		}
		if e != syscall.EACCES && e != syscall.EPERM {
			return n, r.bellError(e)
		}
	}
	if e := r.slowBell(); e != nil {
		return n, e
	}
	return n, err
}

// slowBell rings by ioctl(2). The kernel takes a write(2) only with the credentials
// that opened the device (ib_safe_file_access, include/rdma/ib.h), and Go gives each
// thread its own when it changes them; filters of system calls may refuse it too.
//
//go:noinline
func (r *rxeQP) slowBell() error {
	r.slow = true
	req := abi.PostSend{QpHandle: r.qp.handle, WqeSize: bellWQESize}
	return r.qp.pd.ctx.invoke(abi.IB_USER_VERBS_CMD_POST_SEND, abi.Bytes(&req), abi.Bytes(&abi.PostSendResp{}))
}

// bellWQESize is not less than struct ib_uverbs_send_wr, which some kernels check.
const bellWQESize = 128

// newBell writes the command that tells the kernel of new requests: POST_SEND with
// none in it, by write(2), which costs less than ioctl(2). It stays where it is, as
// the kernel writes an answer to the address in it.
func (r *rxeQP) newBell() error {
	cell, err := r.qp.pd.ctx.cells.get()
	if err != nil {
		return err
	}
	const answerAt = 48
	req := abi.PostSend{Response: addressOf(cell) + answerAt, QpHandle: r.qp.handle, WqeSize: bellWQESize}
	hdr := abi.CmdHdr{Command: abi.IB_USER_VERBS_CMD_POST_SEND, OutWords: 1}
	n := copy(cell, abi.Bytes(&hdr))
	n += copy(cell[n:], abi.Bytes(&req))
	binary.NativeEndian.PutUint16(cell[4:], uint16(n/4))
	r.bell = cell[:n]
	return nil
}

//go:noinline
func (r *rxeQP) bellError(e syscall.Errno) error {
	return &uverbs.Error{Device: r.file.Name(), Call: "POST_SEND", Errno: e}
}

// rxeAH is an address that the kernel has a number for.
type rxeAH struct{ resp abi.RxeCreateAhResp }

func (r *rxeAH) data() (in, out []byte) { return nil, abi.Bytes(&r.resp) }
func (r *rxeAH) detach()                {}

func (r *rxeAH) attach(a *AH) error {
	if r.resp.AhNum == 0 {
		return fmt.Errorf("verbs: %s: datagrams with rxe need Linux 5.16, which numbers addresses: %w", a.pd.ctx.Name(), ucs.ErrUnsupported)
	}
	a.num = r.resp.AhNum
	return nil
}
