package ucp

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// doubt takes out of the address in a request what leads to processes of this
// machine, if the request came from another one. The address could name any
// process here, even this one: transports that access memory of processes would
// read and write it where the peer says. A user who opens the endpoint decides
// himself what address to believe.
func (w *Worker) doubt(from *source, addr *proto.WorkerAddress) {
	if from.uct == nil {
		return // it came through memory of ours
	}
	l, ok := from.uct.Owner.(uct.SourceLocator)
	if !ok || !slices.ContainsFunc(addr.Devices, func(d proto.AddressDevice) bool {
		return slices.ContainsFunc(d.Ifaces, w.within)
	}) || l.SourceInfo().Local {
		return
	}
	w.leaveMachine(addr)
	log.Debug("a peer on another machine says that it is on this one", zap.String("worker", w.name))
}

// leaveMachine takes out of an address what leads to processes of this machine.
func (w *Worker) leaveMachine(addr *proto.WorkerAddress) {
	for k := range addr.Devices {
		d := &addr.Devices[k]
		d.Ifaces = slices.DeleteFunc(d.Ifaces, w.within)
	}
}

// within reports whether an entry of an address is of a transport that does not
// leave the machine.
func (w *Worker) within(f proto.AddressIface) bool {
	return slices.ContainsFunc(w.ifaces, func(i *iface) bool {
		t := i.attr.Resource.Type
		return i.id == f.Transport && (t == uct.DeviceShared || t == uct.DeviceSelf)
	})
}
