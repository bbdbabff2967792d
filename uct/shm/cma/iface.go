//go:build linux

package cma

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// iface is the transport on one worker. It has no receive side.
type iface struct {
	opts   options
	attr   uct.IfaceAttr
	domain *domain
	worker *uct.Worker
	probe  *probe

	dev     host.DeviceAddr
	own     address
	devAddr []byte
	addr    []byte

	active    kit.Ring[*endpoint] // with operations under way
	waiting   kit.Arbiter
	failures  kit.Failures
	reporter  kit.Reporter
	watcher   *host.Watcher
	free      *op // linked by next
	ops       int // under way, of all endpoints
	endpoints int // open ones
	closed    bool
}

var _ uct.Iface = (*iface)(nil)

// Arm implements uct.Armer: no descriptor would tell that copying can go on.
func (i *iface) Arm() error {
	if !i.idle() {
		return ucs.ErrBusy
	}
	return nil
}

func openIface(d *domain, w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	o, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	i := &iface{
		opts:     o,
		domain:   d,
		worker:   w,
		probe:    &machine,
		reporter: kit.Reporter{OnError: p.OnError, Level: o.failure, Log: w.Log()},
		dev:      host.LocalDeviceAddr(),
		own:      localAddress(),
	}
	i.devAddr, i.addr = i.dev.Append(nil), i.own.pack()
	i.attr = i.describe()
	i.watcher = host.OpenWatcher(w)
	d.ifaces.Add(1)
	w.AddProgress(i)
	return i, nil
}

// describe makes the attributes: those of C UCX, of both releases
// (uct_scopy_iface_query, uct_cma_iface_query), and 1.22's estimate of the cost
// of an operation (UCT_SCOPY_IFACE_OVERHEAD). The events that C offers to tell by
// a callback of the interface's opener are left out: IfaceParams has none.
func (i *iface) describe() uct.IfaceAttr {
	limits := uct.RMALimits{
		MaxZcopy:      uct.Unlimited,
		MaxIOV:        i.opts.maxIOV,
		OptZcopyAlign: 1,
		AlignMTU:      1,
	}
	return uct.IfaceAttr{
		Resource: resource,
		Flags: uct.IfacePutZcopy | uct.IfaceGetZcopy | uct.IfacePending | uct.IfaceConnectToIface |
			uct.IfaceErrHandlePeerFail | uct.IfaceEpCheck,
		Events:        uct.EventSendComp | uct.EventRecv,
		Put:           limits,
		Get:           limits,
		DeviceAddrLen: len(i.devAddr),
		IfaceAddrLen:  len(i.addr),
		MaxEndpoints:  i.opts.maxNumEPs,
		NumPaths:      1,
		Perf: uct.Perf{
			Overhead:           overhead(i.probe.root),
			SendOverhead:       500e-9,
			RecvOverhead:       500e-9,
			BandwidthDedicated: i.opts.bandwidth,
			Latency:            uct.Linear{C: 80e-9},
		},
	}
}

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// DeviceAddress implements uct.Iface.
func (i *iface) DeviceAddress() []byte { return i.devAddr }

// Address implements uct.Iface. All ifaces of a process have the same.
func (i *iface) Address() []byte { return i.addr }

// Reachable implements uct.Iface. It asks the kernel about the peer, as C UCX
// does since 1.22, so a transport that is denied is not chosen.
func (i *iface) Reachable(p uct.ReachableParams) error {
	_, err := i.peer(p.DeviceAddr, p.IfaceAddr)
	return err
}

// SetAMHandler implements uct.Iface. As in C UCX any iface takes handlers; no
// message comes here.
func (i *iface) SetAMHandler(id uct.AMID, _ uct.AMHandler) error {
	if id >= uct.MaxAMIDs {
		return kit.ErrAMID(id)
	}
	return nil
}

// Progress implements uct.Progressor.
func (i *iface) Progress() int {
	if i.idle() {
		return 0
	}
	return i.work()
}

// idle reports whether there is nothing to do for Progress.
func (i *iface) idle() bool {
	return i.active.Len() == 0 && i.waiting.Empty() && i.failures.Empty() && !i.watcher.Unsettled()
}

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy
// and closes nothing.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	if i.endpoints > 0 {
		return fmt.Errorf("cma: closing an iface with %d open endpoints: %w", i.endpoints, ucs.ErrBusy)
	}
	i.closed = true
	i.free = nil
	i.worker.RemoveProgress(i)
	i.watcher.Close()
	i.domain.ifaces.Add(-1)
	return nil
}
