package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// A synchronous send is over when the receiver's acknowledgement is here; a
// rendezvous is acknowledged by its own messages.

// syncAck tells the sender of a synchronous message that it was matched.
type syncAck struct{ answer }

func (syncAck) about() protocolInfo { return protocolInfo{name: "sync ack"} }

func (syncAck) progress(r *Request) error { return r.sendControl(proto.IDEagerSyncAck, 0) }

func (syncAck) pack(r *Request, dst []byte) int {
	return proto.EagerSyncAck{ReqID: proto.RequestID(r.peerID)}.Put(dst)
}

// sendSyncAck acknowledges a synchronous message over the endpoint the sender
// named, which from pays for if it has to wait. If that is gone nobody waits for it.
func (w *Worker) sendSyncAck(from *source, id proto.EndpointID, req proto.RequestID) {
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return
	}
	w.stats.SyncAcks++
	r := ep.control(syncAck{})
	r.peerID = uint64(req)
	ep.answer(r, answerSync, from)
}

// onEagerSyncAck is told that a synchronous message was matched.
func (w *Worker) onEagerSyncAck(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseEagerSyncAck(data)
	if err != nil {
		return w.malformed(err)
	}
	r := w.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindEager) || !r.form.acked {
		w.stats.Dropped++
		return nil
	}
	if w.foreign(src, r.ep) {
		return nil
	}
	r.acknowledged(h.Status.Err())
	return nil
}
