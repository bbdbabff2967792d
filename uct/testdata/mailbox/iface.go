package mailbox

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

type iface struct {
	uct.BasicProcessIface
	attr      uct.IfaceAttr
	domain    *domain
	worker    *uct.Worker
	handlers  kit.Handlers
	waiting   kit.Arbiter
	failures  kit.Failures
	reporter  kit.Reporter
	endpoints []*endpoint
	addr      []byte
	box       box
	signaled  []*box // used within a round
	segSize   int
}

var _ interface {
	uct.Iface
	uct.ProcessIface
	uct.Progressor
} = (*iface)(nil)

func openIface(d *domain, w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	s, err := loadSettings(cfg)
	if err != nil {
		return nil, err
	}
	i := &iface{
		domain:   d,
		worker:   w,
		segSize:  int(s.SegSize),
		reporter: kit.Reporter{OnError: p.OnError, Level: s.Failure, Log: w.Log()},
	}
	i.attr = uct.IfaceAttr{
		Resource: d.resource,
		Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfacePending | uct.IfacePutShort | uct.IfacePutBcopy |
			uct.IfaceGetBcopy | uct.IfaceEpCheck | uct.IfaceErrHandlePeerFail | uct.IfaceConnectToIface | uct.IfaceCBSync,
		Events:       uct.EventSendComp | uct.EventRecv | uct.EventFD,
		AM:           uct.AMLimits{MaxShort: i.segSize, MaxBcopy: i.segSize, MaxIOV: uct.Unlimited, OptZcopyAlign: 1, AlignMTU: 1},
		Put:          uct.RMALimits{MaxShort: 1 << 20, MaxBcopy: 1 << 20, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1},
		Get:          uct.RMALimits{MaxBcopy: 1 << 20, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1},
		IfaceAddrLen: addrLen,
		MaxEndpoints: uct.Unlimited,
		NumPaths:     1,
		Perf: uct.Perf{
			Overhead: 100e-9, SendOverhead: 100e-9, RecvOverhead: 100e-9,
			BandwidthDedicated: 4 << 30, Latency: uct.Linear{C: 500e-9},
		},
	}
	for k := range i.box.ring {
		i.box.ring[k].buf = make([]byte, i.segSize)
	}
	if i.box.bell, err = event.NewBell(w.Events(), i); err != nil {
		return nil, err
	}
	i.handlers.Init(w.Log())
	i.addr = publish(&i.box)
	d.open.Add(1)
	w.AddProgress(i)
	return i, nil
}

// HandleEvent implements event.Handler. Progress does the work.
func (i *iface) HandleEvent(event.Events) { i.box.bell.Clear() }

func (i *iface) Attr() *uct.IfaceAttr                            { return &i.attr }
func (i *iface) DeviceAddress() []byte                           { return nil }
func (i *iface) Address() []byte                                 { return i.addr }
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }
func (i *iface) Reachable(p uct.ReachableParams) error           { _, err := find(p.IfaceAddr); return err }

// FindProcess implements uct.ProcessIface: all peers are in this process.
func (i *iface) FindProcess(p uct.ReachableParams, may func(uct.Process) bool) (uct.Process, error) {
	if err := i.Reachable(p); err != nil {
		return 0, err
	}
	own, err := kit.ThisProcess()
	if err == nil && may != nil && !may(own) {
		err = fmt.Errorf("mailbox: this process is not the requesting one: %w: %w", ucs.ErrRejected, ucs.ErrUnreachable)
	}
	if err != nil {
		return 0, err
	}
	return own, nil
}

func (i *iface) Close() error {
	b := &i.box
	if len(i.endpoints) > 0 {
		return fmt.Errorf("mailbox: closing an iface with %d open endpoints: %w", len(i.endpoints), ucs.ErrBusy)
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	conns, waiting := b.conns, b.waiting
	b.conns, b.waiting = nil, nil
	for _, c := range conns {
		c.broken = true
	}
	b.mu.Unlock()
	unpublish(i.addr)
	for _, c := range conns {
		c.source.Gone()
		c.from.signal()
	}
	for _, w := range waiting {
		w.signal()
	}
	i.worker.RemoveProgress(i)
	i.domain.open.Add(-1)
	return b.bell.Close()
}
