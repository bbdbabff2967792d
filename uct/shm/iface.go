//go:build linux

package shm

import (
	"fmt"
	"os"
	"time"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/kit"
)

// iface is an interface: a ring, the ring's descriptors, a socket for wakeups, and the
// endpoints that lead to other rings.
type iface struct {
	rx           ring
	unusual      bool           // one of the next three, perhaps: rounds are for progressUnusual
	deferredWork bool           // pending requests, failures or exits of peers are to be processed
	fenced       bool           // the interface's own segments can shrink
	dead         bool           // the ring was lost and could not be replaced
	inRound      bool           // handlers or callbacks are being called
	idle         uint           // rounds without a message
	inline       []byte         // copy of an inline message, for its handler
	private      []byte         // copies of buffered messages, when fenced
	few          [fewBytes]byte // copy of an inline message of at most fewBytes
	handlers     kit.Handlers
	pool         rxPool

	likely uint64 // address of the ring element that the next send will probably write, or 0

	waiting        kit.Arbiter
	failures       kit.Failures
	reporter       kit.Reporter
	stall          stall
	sleeps         sleepLimit
	looked         ringCache // cached result of the last look at a peer's ring
	blocked        roomWait
	note           uint32 // number of the own wakeup socket, as written to peers' rings (notes.go)
	notes          wakeNames
	watcher        *host.Watcher
	exitMark       uint64 // the value of rx.read from which an exit may be reported
	exitUnreported bool   // an exit was not yet reported by IfaceParams.SenderExited
	refused        bool   // a handler's error was logged
	scribbled      bool   // the warning that the tail was overwritten was logged

	o          options
	params     uct.IfaceParams
	domain     *domain
	worker     *uct.Worker
	sock       wakeSocket
	endpoints  kit.Ring[*endpoint] // open endpoints, in the order in which lookAtPeers checks them
	ended      []*endpoint         // endpoints whose peers have closed their rings
	room       func(error) bool    // makeRoom, called through this field
	endedAt    time.Duration       // when the first endpoint in ended was found
	closed     bool
	renewals   int
	stuckAfter time.Duration
	dev, addr  []byte
	attr       uct.IfaceAttr
}

var _ interface {
	uct.Iface
	uct.ProcessIface
	uct.Progressor
} = (*iface)(nil)

func openIface(d *domain, w *uct.Worker, p uct.IfaceParams, o options) (_ uct.Iface, err error) {
	i := &iface{
		inline:     make([]byte, o.elem-elemPayload),
		o:          o,
		params:     p,
		domain:     d,
		worker:     w,
		stuckAfter: stuckAfter,
		dev:        d.device.Append(nil),
	}
	i.pool = rxPool{m: d.m, owner: i, o: &i.o}
	i.room = i.makeRoom
	i.handlers.Init(w.Log())
	i.reporter = kit.Reporter{OnError: p.OnError, Level: o.failure, Log: w.Log()}
	if err := i.sock.open(); err != nil {
		return nil, err
	}
	i.note = bound(i.sock.name)
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
	i.watcher = host.OpenWatcher(w)
	i.watcher.AddInbox(i)
	d.ifaces.Add(1)
	w.AddProgress(i)
	return i, nil
}

// firstRing creates the ring of a new interface.
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

// slots takes one receive descriptor for each element of a new ring from the pool, and returns
// their indexes. Each element needs a descriptor at all times, because a sender may use any element
// for a buffered message.
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

// useRing makes seg, which fillRing has filled, the interface's ring.
func (i *iface) useRing(seg *segment, slots []int32) {
	i.rx = viewRing(seg, &i.o, slots)
	i.stall, i.exitMark = stall{}, 0
	if i.fenced = seg.shrink; i.fenced {
		i.unusual = true
	}
	if i.fenced && i.private == nil {
		i.private = make([]byte, i.o.seg)
	}
	i.addr = i.domain.m.appendAddress(nil, seg.id)
}

// fillRing initialises seg as an empty ring.
func (i *iface) fillRing(seg *segment, slots []int32) (err error) {
	if seg.shrink {
		defer fault.End(fault.Begin(), seg, nil, &err)
	}
	r := viewRing(seg, &i.o, slots)
	r.fill(os.Getpid(), i.sock.name, &i.pool)
	return nil
}

// describe returns the attributes of the interface (uct_mm_iface_query).
func (i *iface) describe() uct.IfaceAttr {
	ops := uct.AtomicOps{Post: kit.AtomicPostOps, Fetch: kit.AtomicFetchOps}
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
		NoSources:     true,
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

// Address implements uct.Iface. The address of sysv changes when the ring is renewed.
func (i *iface) Address() []byte { return i.addr }

// SetAMHandler implements uct.Iface.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

// ReleaseDesc implements uct.DescOwner.
func (i *iface) ReleaseDesc(d *uct.AMDesc) { i.pool.release(d) }

// Close implements uct.Iface. While endpoints are open, and inside a handler, it
// returns ucs.ErrBusy and closes nothing. Messages that have not been received
// are lost. Descriptors that handlers keep stay valid.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	if n := i.endpoints.Len(); n > 0 || i.inRound {
		return fmt.Errorf("shm: closing an iface with %d open endpoints, in a handler: %v: %w", n, i.inRound, ucs.ErrBusy)
	}
	i.closed = true
	i.worker.RemoveProgress(i)
	i.watcher.RemoveInbox(i)
	i.watcher.Close()
	i.dropCachedRing()
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
