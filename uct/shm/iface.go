package shm

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/rma"
)

// iface is a ring, its descriptors, a socket for wakeups, and the endpoints that
// lead to other rings.
type iface struct {
	uct.UnsupportedIface

	rx       ring
	chores   bool // waiting or failed is not empty
	fenced   bool // the own segments can be cut short
	dead     bool // there is no ring any more
	inRound  bool // messages are being delivered
	idle     uint // rounds without a message
	inline   []byte
	private  []byte // copies of buffered messages, when fenced
	few      [fewBytes]byte
	handlers [uct.MaxAMIDs]uct.AMHandler // never nil
	pool     rxPool

	likely *byte  // of the element that is written next, probably
	sentIn uint64 // round in which something was sent

	waiting []*endpoint // with pending requests, each once
	failed  []*endpoint // to be reported
	tracer  uct.AMTracer
	stall   stall
	naps    naps
	refused bool // a handler's error was logged
	unheard bool // a message without handler was logged

	o          options
	params     uct.IfaceParams
	domain     *domain
	worker     *uct.Worker
	sock       wakeSocket
	endpoints  int // open ones
	closed     bool
	renewals   int
	stuckAfter time.Duration
	dev, addr  []byte
	attr       uct.IfaceAttr
}

var _ uct.Iface = (*iface)(nil)

// progressor is an iface as the worker sees it. It is a type of its own because
// uct.Armer and uct.Iface both have a method Arm.
type progressor iface

// Arm implements uct.Armer.
func (p *progressor) Arm() error { return (*iface)(p).arm() }

func openIface(d *domain, w *uct.Worker, p uct.IfaceParams, o options) (_ *iface, err error) {
	i := &iface{
		inline:     make([]byte, o.elem-elemPayload),
		o:          o,
		params:     p,
		domain:     d,
		worker:     w,
		stuckAfter: stuckAfter,
		dev:        d.device.Append(nil),
	}
	i.pool = rxPool{m: d.m, owner: i, o: &i.o, headroom: p.RxHeadroom}
	for id := range i.handlers {
		i.handlers[id] = i.unknown(uct.AMID(id))
	}
	if err := i.sock.open(); err != nil {
		return nil, err
	}
	seg, err := i.firstRing()
	if err != nil {
		i.pool.close()
		i.sock.close()
		return nil, err
	}
	if err := w.Events().Add(i.sock.fd, event.Read, &i.sock); err != nil {
		i.pool.close()
		i.sock.close()
		d.m.destroy(seg)
		return nil, err
	}
	i.attr = i.describe()
	d.ifaces.Add(1)
	w.AddProgress((*progressor)(i))
	return i, nil
}

// firstRing makes the ring of a new interface.
func (i *iface) firstRing() (*segment, error) {
	slots, err := i.slots()
	if err != nil {
		return nil, err
	}
	seg, err := i.domain.m.create(i.ringOptions())
	if err != nil {
		return nil, err
	}
	if err := i.fillRing(seg, slots); err != nil {
		i.domain.m.destroy(seg)
		return nil, err
	}
	i.useRing(seg, slots)
	return seg, nil
}

func (i *iface) ringOptions() segmentOptions {
	return segmentOptions{size: ringSize(i.o.ring, i.o.elem), what: "ring"}
}

// slots takes descriptors for a new ring. Each element needs one, always: a
// sender may use any for a buffered message.
func (i *iface) slots() ([]int32, error) {
	for len(i.pool.spare) < i.o.ring {
		if err := i.pool.grow(i.o.ring - len(i.pool.spare)); err != nil {
			return nil, err
		}
	}
	slots := make([]int32, i.o.ring)
	for k := range slots {
		slots[k] = i.pool.take()
	}
	return slots, nil
}

// useRing makes seg, which is filled, the ring.
func (i *iface) useRing(seg *segment, slots []int32) {
	i.rx = viewRing(seg, &i.o, slots)
	i.stall = stall{}
	if i.fenced = seg.shrink; i.fenced && i.private == nil {
		i.private = make([]byte, i.o.seg)
	}
	i.addr = i.domain.m.appendAddress(nil, seg.id)
}

// fillRing makes seg an empty ring.
func (i *iface) fillRing(seg *segment, slots []int32) (err error) {
	if seg.shrink {
		defer func(old bool) {
			debug.SetPanicOnFault(old)
			if p := recover(); p != nil {
				if !covers(seg.mem, faultAddress(p)) {
					panic(p)
				}
				err = fmt.Errorf("shm: somebody has cut the new ring short: %w", ucs.ErrShmemSegment)
			}
		}(debug.SetPanicOnFault(true))
	}
	r := viewRing(seg, &i.o, slots)
	r.fill(os.Getpid(), i.sock.name, &i.pool)
	return nil
}

// describe makes the attributes (uct_mm_iface_query).
func (i *iface) describe() uct.IfaceAttr {
	ops := uct.AtomicOps{Post: rma.PostOps, Fetch: rma.FetchOps}
	a := uct.IfaceAttr{
		Resource: i.domain.resource,
		Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfacePending | uct.IfacePutShort |
			uct.IfacePutBcopy | uct.IfaceGetBcopy | uct.IfaceAtomicCPU | uct.IfaceEpCheck |
			uct.IfaceConnectToIface | uct.IfaceCBSync,
		Events: uct.EventSendComp | uct.EventRecv | uct.EventFD,
		AM: uct.AMLimits{
			MaxShort: i.o.elem - elemPayload, MaxBcopy: i.o.bcopy, MaxIOV: uct.Unlimited,
			OptZcopyAlign: 1, AlignMTU: 1,
		},
		Put: uct.RMALimits{
			MaxShort: maxPutShort, MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Get:           uct.RMALimits{MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1},
		Atomic32:      ops,
		Atomic64:      ops,
		DeviceAddrLen: len(i.dev),
		IfaceAddrLen:  len(i.addr),
		MaxEndpoints:  i.o.maxNumEPs,
		NumPaths:      1,
		Perf:          i.o.perf,
	}
	if i.o.handling {
		a.Flags |= uct.IfaceErrHandlePeerFail
	}
	return a
}

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// DeviceAddress implements uct.Iface.
func (i *iface) DeviceAddress() []byte { return i.dev }

// Address implements uct.Iface. That of sysv changes when a ring was renewed.
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
		if i.params.OnUnknownAM != nil {
			i.params.OnUnknownAM(id, data)
			return nil
		}
		write := log.Debug // peers can send any number of them
		if !i.unheard {
			write = log.Warn
		}
		i.unheard = true
		write("dropped an active message without handler", zap.Uint8("id", uint8(id)), zap.Int("bytes", len(data)))
		return nil
	}
}

// SetAMTracer implements uct.Iface.
func (i *iface) SetAMTracer(t uct.AMTracer) error {
	i.tracer = t
	return nil
}

// ReleaseDesc implements uct.DescOwner.
func (i *iface) ReleaseDesc(d *uct.AMDesc) { i.pool.release(d) }

// Flush implements uct.Iface: what was accepted is in the peers' memory.
func (i *iface) Flush(uct.FlushFlags) error {
	storeFence()
	return nil
}

// Fence implements uct.Iface, see endpoint.Fence.
func (i *iface) Fence() error {
	word.Fence()
	return nil
}

// Arm implements uct.Iface.
func (i *iface) Arm(uct.EventFlags) error { return i.arm() }

// EstimatePerf implements uct.Iface.
func (i *iface) EstimatePerf(p uct.PerfParams) uct.Perf {
	if p.Operation == uct.OpAMBcopy {
		return i.o.perfBcopy
	}
	return i.o.perf
}

// MemoryTypes implements uct.Iface.
func (i *iface) MemoryTypes() []ucs.MemoryType { return []ucs.MemoryType{ucs.MemoryHost} }

// Close implements uct.Iface. While endpoints are open, and inside a handler, it
// returns ucs.ErrBusy and closes nothing. Messages that have not been received
// are lost. Descriptors that handlers keep stay valid.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	if i.endpoints > 0 || i.inRound {
		return fmt.Errorf("shm: closing an iface with %d open endpoints, in a handler: %v: %w", i.endpoints, i.inRound, ucs.ErrBusy)
	}
	i.closed = true
	i.worker.RemoveProgress((*progressor)(i))
	first := i.worker.Events().Remove(i.sock.fd)
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if !i.dead {
		keep(i.closeRing())
	}
	keep(i.pool.close())
	keep(i.sock.close())
	i.domain.ifaces.Add(-1)
	return first
}
