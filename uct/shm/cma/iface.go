//go:build linux

package cma

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/kit"
)

// iface is the transport cma on one worker. It has no receive side.
type iface struct {
	uct.BasicProcessIface

	opts   options
	attr   uct.IfaceAttr
	domain *domain
	worker *uct.Worker
	probe  *probe

	dev     host.DeviceAddr
	own     address
	devAddr []byte
	addr    []byte

	active    kit.Ring[*endpoint] // endpoints with outstanding operations
	waiting   kit.Arbiter
	failures  kit.Failures
	reporter  kit.Reporter
	watcher   *host.Watcher
	free      *op // free list of op structs, linked by op.next
	ops       int // number of outstanding operations of all endpoints
	endpoints int // number of open endpoints
	closed    bool
}

var _ interface {
	uct.Iface
	uct.ProcessIface
	uct.Progressor
} = (*iface)(nil)

// Arm implements uct.Progressor. It returns ucs.ErrBusy while operations are outstanding, because
// no descriptor of the event set would report that copying can continue.
func (i *iface) Arm(uct.EventFlags) error {
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

// describe returns the attributes of the iface. They are those of both releases of C UCX
// (uct_scopy_iface_query, uct_cma_iface_query), with the estimate of release 1.22 for the cost of
// an operation (UCT_SCOPY_IFACE_OVERHEAD). The events that C UCX reports by a callback of the
// interface's opener are left out, because IfaceParams has no such callback.
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

// Address implements uct.Iface. All ifaces of a process have the same address.
func (i *iface) Address() []byte { return i.addr }

// Reachable implements uct.Iface. It tries to access the peer, as C UCX does since 1.22, so that
// the transport is not chosen for a peer to which the kernel denies access.
func (i *iface) Reachable(p uct.ReachableParams) error {
	_, err := i.peer(p.DeviceAddr, p.IfaceAddr)
	return err
}

// SetAMHandler implements uct.Iface. It accepts handlers like every iface of C UCX, but calls none:
// the transport has no active messages.
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

// idle reports whether Progress has no work.
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
