package self

import (
	"fmt"
	"math"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
	"github.com/ucx-go/ucx/uct/internal/rma"
)

// maxDepth is the number of handlers that may run inside each other.
const maxDepth = 8

// iface is the whole transport: what its endpoints send arrives at its own
// handlers.
type iface struct {
	// The fast path of a send: while depth < inline, the buffer of this depth
	// is there and nothing is before the message.
	depth    int              // handlers running inside each other
	inline   int              // buffers made so far, 0 while sends must take the slow path
	segSize  int              // length of each buffer
	bufs     [maxDepth][]byte // by depth
	handlers kit.Handlers

	backlog  backlog
	waiting  kit.Arbiter
	failures kit.Failures // endpoints dropped by the receiver
	reporter kit.Reporter

	domain    *domain
	worker    *uct.Worker
	endpoints int // open ones
	closed    bool
	addr      []byte
	attr      uct.IfaceAttr
}

var _ uct.Iface = (*iface)(nil)

// Arm implements uct.Armer: no descriptor would tell of the backlog.
func (i *iface) Arm() error {
	if !i.idle() {
		return ucs.ErrBusy
	}
	return nil
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

// maxPutShort is the limit that C UCX publishes, where numbers reach so far.
const maxPutShort = min(math.MaxUint32, math.MaxInt)

// attributes are those of C UCX 1.22 (uct_self_iface_query).
func attributes(r uct.Resource, s ifaceSettings) uct.IfaceAttr {
	seg := int(s.SegSize)
	ops := uct.AtomicOps{Post: rma.PostOps, Fetch: rma.FetchOps}
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

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// DeviceAddress implements uct.Iface: there is none.
func (i *iface) DeviceAddress() []byte { return nil }

// Address implements uct.Iface.
func (i *iface) Address() []byte { return i.addr }

// SetAMHandler implements uct.Iface.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy
// and closes nothing. Messages of the backlog are dropped.
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
