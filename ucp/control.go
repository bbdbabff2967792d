package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Control messages are sent by the library itself: wireup, acknowledgements,
// rendezvous answers. Their requests belong to nobody and vanish when sent. They
// are small and copied, so "buffered" is as good as "sent".

// control makes a request for a control message.
func (ep *Endpoint) control(p *protocol) *Request {
	r := ep.w.getRequest()
	r.ep, r.proto, r.state = ep, p, stateFreed
	return r
}

// controlSent turns the result of sending a control message into the result of
// its protocol's progress.
func controlSent(r *Request, err error) error {
	if err == nil || err == ucs.InProgress {
		r.finish(nil)
		return nil
	}
	return err
}

// syncAck tells the sender of a synchronous message that it was matched.
var syncAck = protocol{
	name: "sync ack",
	progress: func(r *Request) error {
		_, err := r.ep.am().AMBcopy(uct.AMID(proto.IDEagerSyncAck), r, 0, nil)
		return controlSent(r, err)
	},
	pack: func(r *Request, dst []byte) int {
		return proto.EagerSyncAck{ReqID: proto.RequestID(r.peerID)}.Put(dst)
	},
}

// rndvATS tells the sender of a rendezvous message that we are done with it;
// rndvATP the receiver that the data is there or will not come.
var (
	rndvATS = protocol{
		name: "rndv ats",
		progress: func(r *Request) error {
			_, err := r.ep.am().AMBcopy(uct.AMID(proto.IDRndvATS), r, 0, nil)
			return controlSent(r, err)
		},
		pack: packAck,
	}
	rndvATP = protocol{
		name: "rndv atp",
		progress: func(r *Request) error {
			_, err := r.ep.am().AMBcopy(uct.AMID(proto.IDRndvATP), r, 0, nil)
			return controlSent(r, err)
		},
		pack: packAck,
	}
)

func packAck(r *Request, dst []byte) int {
	h := proto.RndvAck{ReqID: proto.RequestID(r.peerID), Status: ucs.Status(r.frag), Size: r.arrived, HasSize: true}
	return h.Put(dst)
}

// sendSyncAck acknowledges a synchronous message over the endpoint the sender
// named. If that is gone nobody waits for it.
func (w *Worker) sendSyncAck(id proto.EndpointID, req proto.RequestID) {
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return
	}
	w.stats.SyncAcks++
	r := ep.control(&syncAck)
	r.peerID = uint64(req)
	r.run()
}

// sendATS ends a rendezvous of the peer's with the data taken, not wanted, or, by
// status, not to be had.
func (ep *Endpoint) sendATS(req proto.RequestID, size int, status ucs.Status) {
	ep.sendAck(&rndvATS, req, size, status)
}

// sendAbort ends a rendezvous of ours with size bytes missing.
func (ep *Endpoint) sendAbort(req proto.RequestID, size int) {
	ep.sendAck(&rndvATP, req, size, ucs.ErrCanceled)
}

func (ep *Endpoint) sendAck(p *protocol, req proto.RequestID, size int, status ucs.Status) {
	r := ep.control(p)
	r.peerID, r.arrived, r.frag = uint64(req), size, int(status)
	r.run()
}
