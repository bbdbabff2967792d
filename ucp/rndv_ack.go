package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// rndvATS tells the sender of a rendezvous message that we are done with it;
// rndvATP the receiver that the data is there or will not come.
type (
	rndvATS struct{ answer }
	rndvATP struct{ answer }
)

func (rndvATS) about() protocolInfo { return protocolInfo{name: "rndv ats"} }
func (rndvATP) about() protocolInfo { return protocolInfo{name: "rndv atp"} }

func (rndvATS) progress(r *Request) error { return r.sendControl(proto.IDRndvATS, 0) }
func (rndvATP) progress(r *Request) error { return r.sendControl(proto.IDRndvATP, 0) }

func (rndvATS) pack(r *Request, dst []byte) int { return r.packAck(dst) }
func (rndvATP) pack(r *Request, dst []byte) int { return r.packAck(dst) }

func (r *Request) packAck(dst []byte) int {
	return proto.RndvAck{ReqID: proto.RequestID(r.peerID), Status: r.ackStatus, Size: r.ackSize, HasSize: true}.Put(dst)
}

// sendATS ends a rendezvous of the peer's with the data taken, not wanted, or, by
// status, not to be had.
func (ep *Endpoint) sendATS(req proto.RequestID, size int, status ucs.Status) {
	ep.sendAck(rndvATS{}, answerATS, req, size, status)
}

// sendAbort ends a rendezvous of ours with size bytes missing.
func (ep *Endpoint) sendAbort(req proto.RequestID, size int) {
	ep.sendAck(rndvATP{}, answerATP, req, size, ucs.ErrCanceled)
}

func (ep *Endpoint) sendAck(p protocol, kind answerKind, req proto.RequestID, size int, status ucs.Status) {
	r := ep.control(p)
	r.peerID, r.ackSize, r.ackStatus = uint64(req), size, status
	ep.answer(r, kind, ep.asker())
}

// asker is who pays for an answer over the endpoint: who has just asked, or else who
// opened it, as far as that is known.
func (ep *Endpoint) asker() *source {
	if s := ep.w.asker; s != nil {
		return s
	}
	if s := ep.openedBy(); s != nil {
		return s
	}
	return &ep.w.unnamed
}
