package self

import (
	"fmt"
	"math"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/rma"
)

// maxDepth is the number of handlers that may run inside each other.
const maxDepth = 8

// iface is the whole transport: what its endpoints send arrives at its own
// handlers.
type iface struct {
	uct.UnsupportedIface

	// The fast path of a send: while depth < inline, the buffer of this depth
	// is there, nothing is before the message and nobody traces.
	depth    int                         // handlers running inside each other
	inline   int                         // buffers made so far, 0 while sends must take the slow path
	segSize  int                         // length of each buffer
	bufs     [maxDepth][]byte            // by depth
	handlers [uct.MaxAMIDs]uct.AMHandler // never nil

	backlog backlog
	waiting []*endpoint // with pending requests, each once
	failed  []*endpoint // dropped by the receiver, to be reported
	pumping bool        // pending requests are being dispatched
	tracer  uct.AMTracer

	onUnknownAM func(id uct.AMID, data []byte)
	onError     func(ep uct.Endpoint, userData any, err error)
	domain      *domain
	worker      *uct.Worker
	endpoints   int // open ones
	closed      bool
	addr        []byte
	attr        uct.IfaceAttr
}

var _ uct.Iface = (*iface)(nil)

// progressor is what the worker sees of an iface. It is a type of its own
// because uct.Armer and uct.Iface both have a method Arm.
type progressor struct{ *iface }

// Arm implements uct.Armer: no descriptor would tell of the backlog.
func (p progressor) Arm() error {
	if !p.idle() {
		return ucs.ErrBusy
	}
	return nil
}

func openIface(d *domain, w *uct.Worker, r uct.Resource, p uct.IfaceParams, cfg *config.Set) (*iface, error) {
	s, err := loadIfaceSettings(cfg)
	if err != nil {
		return nil, err
	}
	i := &iface{
		segSize:     int(s.SegSize),
		onUnknownAM: p.OnUnknownAM,
		onError:     p.OnError,
		domain:      d,
		worker:      w,
		addr:        newAddress(),
		attr:        attributes(r, s),
	}
	if i.onUnknownAM == nil {
		i.onUnknownAM = dropUnknownAM
	}
	for id := range i.handlers {
		i.handlers[id] = i.unknown(uct.AMID(id))
	}
	d.ifaces.Add(1)
	w.AddProgress(progressor{i})
	return i, nil
}

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
			MaxShort: math.MaxUint32, MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Get:          uct.RMALimits{MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1},
		Atomic32:     ops,
		Atomic64:     ops,
		IfaceAddrLen: addrLen,
		MaxEndpoints: s.MaxNumEPs.Int(uct.Unlimited),
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
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error {
	if id >= uct.MaxAMIDs {
		return errAMID(id)
	}
	if h == nil {
		h = i.unknown(id)
	}
	i.handlers[id] = h
	return nil
}

// unknown is the handler of an id that has none.
func (i *iface) unknown(id uct.AMID) uct.AMHandler {
	return func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		i.onUnknownAM(id, data)
		return nil
	}
}

// dropUnknownAM is told of such messages when nobody else wants to be.
func dropUnknownAM(id uct.AMID, data []byte) {
	log.Warn("dropped an active message without handler", zap.Uint8("id", uint8(id)), zap.Int("bytes", len(data)))
}

// SetAMTracer implements uct.Iface.
func (i *iface) SetAMTracer(t uct.AMTracer) error {
	i.tracer = t
	i.updateInline()
	return nil
}

// Flush implements uct.Iface: a message in the backlog has left its sender.
func (i *iface) Flush(uct.FlushFlags) error { return nil }

// Fence implements uct.Iface: operations happen in order.
func (i *iface) Fence() error { return nil }

// Arm implements uct.Iface: there is no descriptor.
func (i *iface) Arm(uct.EventFlags) error { return ucs.ErrUnsupported }

// EstimatePerf implements uct.Iface: all operations cost the same.
func (i *iface) EstimatePerf(uct.PerfParams) uct.Perf { return i.attr.Perf }

// MemoryTypes implements uct.Iface.
func (i *iface) MemoryTypes() []ucs.MemoryType { return []ucs.MemoryType{ucs.MemoryHost} }

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
	i.worker.RemoveProgress(progressor{i})
	i.domain.ifaces.Add(-1)
	return nil
}
