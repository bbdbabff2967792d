package self

import (
	"fmt"
	"math"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// maxDepth is the maximum nesting depth of handlers.
const maxDepth = 8

// iface implements uct.Iface. The messages of its endpoints arrive at its own handlers.
type iface struct {
	uct.BasicProcessIface

	// State of the fast path of a send: while depth < inline, the buffer of this depth exists,
	// and no earlier message or request is waiting.
	depth    int              // number of nested handlers that are running
	inline   int              // number of buffers allocated so far, 0 while sends must take the slow path
	segSize  int              // length of each buffer
	bufs     [maxDepth][]byte // message buffers by depth
	handlers kit.Handlers

	backlog  backlog
	waiting  kit.Arbiter
	failures kit.Failures // endpoints dropped by the receiver, to be reported
	reporter kit.Reporter

	domain    *domain
	worker    *uct.Worker
	resting   bool // Progress is not called before work calls Rouse
	endpoints int  // number of open endpoints
	closed    bool
	addr      []byte
	attr      uct.IfaceAttr
}

var _ interface {
	uct.Iface
	uct.ProcessIface
	uct.Rester
} = (*iface)(nil)

// Arm implements uct.Progressor. It returns ucs.ErrBusy while work is left, because no descriptor
// signals a message in the backlog. The event flags make no difference.
func (i *iface) Arm(uct.EventFlags) error {
	if !i.idle() {
		return ucs.ErrBusy
	}
	return nil
}

// Rest implements uct.Rester.
func (i *iface) Rest() bool {
	i.resting = i.idle()
	return i.resting
}

// rouse is called when there is work for Progress.
func (i *iface) rouse() {
	if i.resting {
		i.resting = false
		i.worker.Rouse(i)
	}
}

func openIface(d *domain, w *uct.Worker, r uct.Resource, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	s, err := loadIfaceSettings(cfg)
	if err != nil {
		return nil, err
	}
	i := &iface{
		segSize:  int(s.SegSize),
		reporter: kit.Reporter{OnError: p.OnError, Level: s.Common.Failure, Log: w.Log()},
		domain:   d,
		worker:   w,
		addr:     newAddress(),
		attr:     attributes(r, s),
	}
	i.handlers.Init(w.Log())
	d.ifaces.Add(1)
	w.AddProgress(i)
	return i, nil
}

// maxPutShort is the limit that C UCX publishes, or the largest int if that is less.
const maxPutShort = min(math.MaxUint32, math.MaxInt)

// attributes returns the attributes that C UCX 1.22 publishes (uct_self_iface_query).
func attributes(r uct.Resource, s ifaceSettings) uct.IfaceAttr {
	seg := int(s.SegSize)
	ops := uct.AtomicOps{Post: kit.AtomicPostOps, Fetch: kit.AtomicFetchOps}
	return uct.IfaceAttr{
		Resource: r,
		Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfacePending | uct.IfacePutShort |
			uct.IfacePutBcopy | uct.IfaceGetBcopy | uct.IfaceAtomicCPU | uct.IfaceEpCheck |
			uct.IfaceConnectToIface | uct.IfaceCBSync,
		AM: uct.AMLimits{
			MaxShort: seg, MaxBcopy: seg, MaxIOV: uct.Unlimited, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Put: uct.RMALimits{
			MaxShort: maxPutShort, MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Get:          uct.RMALimits{MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1},
		Atomic32:     ops,
		Atomic64:     ops,
		IfaceAddrLen: addrLen,
		MaxEndpoints: s.Common.MaxNumEPs.Int(uct.Unlimited),
		NumPaths:     1,
		Perf: uct.Perf{
			Overhead:           10e-9,
			SendOverhead:       10e-9,
			RecvOverhead:       10e-9,
			BandwidthDedicated: 19360 << 20,
		},
	}
}

// Attr implements uct.Iface. The result is the same for as long as the iface is open.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// DeviceAddress implements uct.Iface. self has no device address.
func (i *iface) DeviceAddress() []byte { return nil }

// Address implements uct.Iface. The address never changes.
func (i *iface) Address() []byte { return i.addr }

// SetAMHandler implements uct.Iface: a message without a handler is dropped, and the first one is
// logged.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy and closes
// nothing. Messages in the backlog are dropped.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	if i.endpoints > 0 {
		return fmt.Errorf("self: closing an iface with %d open endpoints: %w", i.endpoints, ucs.ErrBusy)
	}
	i.closed = true
	i.inline = 0
	i.backlog = backlog{}
	i.bufs = [maxDepth][]byte{}
	i.worker.RemoveProgress(i)
	i.domain.ifaces.Add(-1)
	return nil
}
