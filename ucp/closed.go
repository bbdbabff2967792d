package ucp

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// Allow permits the worker of an address to open endpoints to this worker in closed mode
// (WorkerParams.Closed), although the application has no endpoint to it. The permission
// holds until Disallow. The address is untrusted; what is kept of it is copied.
func (w *Worker) Allow(a Address) error {
	if w.missing() {
		return errMissing("Worker.Allow", w == nil)
	}
	w.look()
	defer w.unlook()
	addr, err := w.parseAllowed(a)
	if err != nil {
		return err
	}
	w.peerOf(&addr).allowed = true
	return nil
}

// Disallow withdraws the permission that Allow gave. Existing endpoints stay.
func (w *Worker) Disallow(a Address) error {
	if w.missing() {
		return errMissing("Worker.Disallow", w == nil)
	}
	w.look()
	defer w.unlook()
	addr, err := w.parseAllowed(a)
	if err != nil {
		return err
	}
	if p := w.find(addr.UUID, entriesOf(&addr)); p != nil && p.allowed {
		p.allowed = false
		w.releasePeer(p)
	}
	return nil
}

func (w *Worker) parseAllowed(a Address) (proto.WorkerAddress, error) {
	if w.closed || len(a) == 0 {
		return proto.WorkerAddress{}, fmt.Errorf("ucp: address to allow: %w", ucs.ErrInvalidParam)
	}
	addr, _, err := proto.ParseAddress(a, proto.FormWorker)
	return addr, err
}

// admits refuses requests of peers that the application does not vouch for, if that
// is what it wants, or if they have not proved that they have its address. The error
// drops the connection: the peer shall not wait.
func (w *Worker) admits(from *source, p *peer, proved bool) error {
	switch {
	case p != nil && p.vouched():
		return nil
	case !proved:
		return w.unproved(from)
	case !w.params.Closed && !w.ctx.settings.Closed:
		return nil
	}
	err := fmt.Errorf("ucp: the worker is closed to unknown peers: %w", ucs.ErrRejected)
	if w.refused(from, ledger.Policy) {
		w.ctx.log.Warn("request of an unknown peer refused", zap.String("worker", w.name), zap.Error(err))
	}
	return err
}

// bygone reports whether a question whether an end still exists can be of a worker to
// which the application had an endpoint: it came through memory of ours, with a uuid that
// is remembered. Such a question is answered, whoever the worker is open to now. On a
// connection a refusal says as much, as the connection ends; in memory nothing else
// would, and the peer would wait for as long as this process lives. It needs no proof of
// the token, as C UCX knows none. Who is somebody else and has seen the uuid is a process
// of our user, and learns that there is no such endpoint.
func (w *Worker) bygone(from *source, m *proto.Wireup) bool {
	k := w.peers[m.Address.UUID]
	return from.uct == nil && k != nil && k.nextSN != 0
}

// keepInside leaves in an address what leads within the machine.
func (w *Worker) keepInside(addr *proto.WorkerAddress) {
	for k := range addr.Devices {
		d := &addr.Devices[k]
		d.Ifaces = slices.DeleteFunc(d.Ifaces, func(f proto.AddressIface) bool {
			return !slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.id == f.Transport && i.inside() })
		})
	}
}
