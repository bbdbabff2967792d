//go:build linux

package rc

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

func init() {
	ib.RegisterTransport(ib.Transport{Name: transportName, Check: check, Open: openIface})
}

// check returns an error if the device has no shared receive queues, which the transport needs.
func check(d *ib.Domain) error {
	if d.Caps().MaxSRQ == 0 {
		return fmt.Errorf("rc: %s has no shared receive queues: %w", d.Device(), ucs.ErrUnsupported)
	}
	return nil
}

// iface is an open port with the queues that its endpoints share. It belongs to the goroutine
// of its worker.
type iface struct {
	ib.Iface
	attr uct.IfaceAttr
	set  *settings

	recvs memory.RecvPool
	bufs  memory.SendPool // buffers for copied data
	hdrs  memory.SendPool // buffers for headers of zero-copy messages, and for results of atomics

	endpoints int         // number of open endpoints
	eps       []*endpoint // endpoints by index; nil where there is none
	freeIndex []int32
	byQPN     qpnTable
	last      *endpoint // the endpoint of the last receive
	retired   retiredEnds
	freeOps   *op

	credits       int    // free entries of the send completion queue
	total         int    // all of its entries
	lowCredits    int    // at so few credits every request is signaled, and endpoints are limited
	few           uint32 // requests that an endpoint may have in flight then, while one is signaled
	moderation    uint32 // largest number of successive unsignaled requests
	maxWR         int    // limit on requests of an endpoint in flight
	maxReading    int    // bytes in flight for reads at which no further read begins
	reading       int    // bytes in flight for reads
	limits        flowLimits
	noFence       bool
	endless       bool                // the device retries forever, see overdue.go
	grants        kit.Ring[*endpoint] // endpoints that owe a grant
	tails         kit.Ring[*endpoint] // endpoints with a tail, see tail.go
	idleRounds    int                 // successive rounds without an event since a tail was added
	resumed       kit.Ring[*endpoint] // endpoints with deferred messages to deliver
	deferredBytes int                 // deferred bytes of all endpoints
	deferredLimit int                 // limit of deferredBytes
	draining      kit.Ring[*endpoint] // endpoints that are closed and still receive, see drain.go

	quiet  uint8 // 1: the receive completion queue was not seen empty since it had entries
	late   int   // rounds that reports of failures have been delayed
	closed bool

	downFor *event.Timer // runs while the link has been down for less than lossTimeout; else nil
	looking *event.Timer // runs until the next look at endpoints that may be overdue; nil if none are
	emptied uint32       // rounds that have seen the completion queue of sends empty

	head   [9]byte // buffer for the header of a short message
	pieces [maxPieces]verbs.SGE
}

// maxPieces limits the pieces of memory in a request (UCT_IB_MAX_IOV).
const maxPieces = 8

var (
	_ uct.Iface        = (*iface)(nil)
	_ uct.NetworkIface = (*iface)(nil)
	_ uct.Progressor   = (*iface)(nil)
	_ ib.User          = (*iface)(nil)
)

// openIface opens a port.
func openIface(p *ib.Port, w *uct.Worker, params uct.IfaceParams, cfg *config.Set) (_ uct.Iface, err error) {
	set, err := loadSettings(cfg)
	if err != nil {
		return nil, err
	}
	caps := p.Domain.Caps()
	rc := &set.RC
	receives := min(rc.Buffers.RxQueueLen.Int(0), caps.MaxSRQWR)
	i := &iface{set: set, total: min(rc.TxCQLen.Int(0), caps.MaxCQE), noFence: rc.Fence == fenceNone, deferredLimit: maxDeferredBytes}
	i.limits = newFlowLimits(rc.FCWindow.Int(0), receives, rc.FCSoft, rc.FCHard, rc.FCEnable)
	if err := i.Open(p, w, ib.IfaceInit{
		User: i, Params: params, Settings: &rc.IB, SendCQE: i.total, RecvCQE: receives,
		SRQ: &verbs.SRQInitAttr{MaxWR: receives, MaxSGE: 1},
	}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.release())
		}
	}()
	i.credits, i.lowCredits = i.total, i.total/2
	i.few = uint32(max(i.lowCredits/max(rc.Buffers.Common.MaxNumEPs.Int(0), 1), 1))
	if err := i.openPools(receives); err != nil {
		return nil, err
	}
	limits, err := i.probe()
	if err != nil {
		return nil, err
	}
	i.maxWR = min(rc.IB.TxQueueLen.Int(0), limits.MaxSendWR)
	i.maxWR = min(i.maxWR, set.TxMaxWR.Int(i.maxWR))
	i.maxReading = rc.TxNumGetBytes.Int(math.MaxInt)
	i.moderation = uint32(min(rc.TxModeration.Int(0), i.maxWR/4))
	i.endless = i.Domain.Context().Driver() == softRoCE && i.pathAttr().RetryCount == noEnd
	i.describe(limits)
	w.AddProgress(i)
	return i, nil
}

// openPools allocates the buffers.
func (i *iface) openPools(receives int) error {
	s := &i.set.RC
	size := s.Buffers.SegSize.Int(0)
	most := min(s.IB.TxMaxBufs.Int(i.total), i.total)
	if err := i.bufs.Open(&i.Domain.Space, size, most); err != nil {
		return err
	}
	if err := i.hdrs.Open(&i.Domain.Space, max(i.set.MaxAMHdr.Int(0), minHeader), most); err != nil {
		return err
	}
	return i.recvs.Open(&i.Domain.Space, i.SRQ, size, receives, s.IB.RxMaxBufs)
}

// probe creates a queue pair to learn its limits, and destroys it.
func (i *iface) probe() (verbs.QPCap, error) {
	qp, err := i.newQP()
	if err != nil {
		return verbs.QPCap{}, err
	}
	return qp.Cap(), qp.Close()
}

// newQP creates a queue pair.
func (i *iface) newQP() (*verbs.QP, error) {
	s := &i.set.RC.IB
	caps := i.Domain.Caps()
	return i.Domain.PD().CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: i.SendCQ, RecvCQ: i.RecvCQ, SRQ: i.SRQ,
		Cap: verbs.QPCap{
			MaxSendWR:  min(s.TxQueueLen.Int(0), caps.MaxQPWR),
			MaxSendSGE: min(s.TxMinSGE.Int(0), caps.MaxSGE, maxPieces),
			MaxInline:  s.TxMinInline.Int(0),
		},
	})
}

// pathAttr returns the attributes to connect a queue pair with, except those that depend on the
// peer (uct_rc_iface_qp_connect).
func (i *iface) pathAttr() verbs.QPAttr {
	s, caps := &i.set.RC, i.Domain.Caps()
	return verbs.QPAttr{
		MaxDestRdAtomic: clamp8(s.MaxRdAtomic.Int(caps.MaxQPRdAtom)),
		// The peer does not announce how many it accepts, and refuses those beyond.
		MaxRdAtomic: clamp8(min(s.MaxRdAtomic.Int(anyPeerReads), caps.MaxQPInitRdAtom)),
		MinRNRTimer: rnrTimer(s.RNRTimeout.Duration(time.Millisecond)),
		Timeout:     ackTimeout(s.Timeout.Duration(time.Second)),
		RetryCount:  uint8(s.RetryCount.Int(0)),
		RNRRetry:    uint8(s.RNRRetry.Int(0)),
	}
}

// anyPeerReads is how many reads and atomics in flight every device can answer.
const anyPeerReads = 16

func clamp8(n int) uint8 { return uint8(min(n, math.MaxUint8)) }

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// Address implements uct.Iface. It is empty, because the device address identifies the interface.
func (i *iface) Address() []byte { return nil }

// Reachable implements uct.Iface.
func (i *iface) Reachable(p uct.ReachableParams) error {
	if len(p.IfaceAddr) != 0 {
		return fmt.Errorf("rc: interface address of %d bytes, not 0: %w", len(p.IfaceAddr), ucs.ErrUnreachable)
	}
	return i.ReachesDevice(p.DeviceAddr)
}

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy and closes
// nothing.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	if i.endpoints > 0 {
		return fmt.Errorf("rc: closing an interface with %d open endpoints: %w", i.endpoints, ucs.ErrBusy)
	}
	i.endDraining(0)
	i.Worker.RemoveProgress(i)
	return i.release()
}

// release frees all resources.
func (i *iface) release() error {
	i.closed = true
	for _, e := range i.retired.ends {
		e.unregister()
	}
	for _, t := range []*event.Timer{i.downFor, i.looking} {
		if t != nil {
			t.Stop()
		}
	}
	return errors.Join(i.Iface.Close(), i.bufs.Close(), i.hdrs.Close(), i.recvs.Close())
}
