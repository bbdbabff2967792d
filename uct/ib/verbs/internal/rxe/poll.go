//go:build linux

package rxe

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// cq is a ring of completions.
type cq struct {
	provider.NoEvents
	ring   ring
	ctx    *context
	handle uint32
	resp   abi.RxeCreateCqResp
}

func (c *cq) Data() (in, out []byte) { return nil, abi.Bytes(&c.resp) }
func (c *cq) Detach()                { c.ring.unmap() }

func (c *cq) Attach(m *provider.CQMade) error {
	c.handle = m.Handle
	return c.ring.mmap(c.ctx.dev, c.resp.Mi, wcSize)
}

// Arm requests an event by a system call. Completions that exist before it cause no event.
func (c *cq) Arm(solicited bool) error {
	req := abi.ReqNotifyCq{CqHandle: c.handle}
	if solicited {
		req.SolicitedOnly = 1
	}
	return c.ctx.dev.Invoke(abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, abi.Bytes(&req), nil)
}

func (c *cq) Poll(wc []provider.WC) int {
	r := &c.ring
	if r.mem == nil {
		return 0
	}
	n := 0
	for n < len(wc) {
		if r.own == r.peerIndex {
			r.peerIndex = atomic.LoadUint32(&r.head.ProducerIndex) & r.mask
			if r.own == r.peerIndex {
				break
			}
		}
		c := r.wc(r.own)
		w := &wc[n]
		w.ID, w.Status, w.Opcode, w.VendorErr = c.WrId, provider.WCStatus(c.Status), provider.WCOpcode(c.Opcode), c.VendorErr
		w.ByteLen, w.QPN, w.SrcQPN, w.Flags = c.ByteLen, provider.QPN(c.QpNum), provider.QPN(c.SrcQp), provider.WCFlags(c.WcFlags)
		w.PKeyIndex, w.SLID, w.SL, w.DLIDPathBits = c.PkeyIndex, provider.LID(c.Slid), c.Sl, c.DlidPathBits
		w.Imm, w.InvalidatedRKey = 0, 0
		if w.Flags&provider.WCWithImm != 0 {
			w.Imm = swap32(c.Ex)
		} else if w.Flags&provider.WCWithInv != 0 {
			w.InvalidatedRKey = provider.RKey(c.Ex)
		}
		n++
		r.own = r.next()
	}
	if n > 0 {
		uverbs.RaceReceived()
		word.StoreRelease32(&r.head.ConsumerIndex, r.own)
	}
	return n
}

// Resize returns a Resizing whose kernel call allocates a new ring and moves the contents of this
// one to it.
func (c *cq) Resize(*int) (provider.Resizing, error) { return &cqResizing{cq: c}, nil }

// cqResizing is a change of a completion queue's size in progress.
type cqResizing struct {
	cq   *cq
	resp abi.RxeCreateCqResp
}

func (r *cqResizing) Data() (in, out []byte) { return nil, abi.Bytes(&r.resp) }
func (r *cqResizing) Failed()                {}

func (r *cqResizing) Done(*int) error {
	r.cq.ring.unmap()
	return r.cq.ring.mmap(r.cq.ctx.dev, r.resp.Mi, wcSize)
}
