package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// wireupMessage carries a packed wireup message. Its request belongs to nobody and
// vanishes when sent.
type wireupMessage struct{ basics }

func (wireupMessage) about() protocolInfo { return protocolInfo{name: "wireup"} }

func (wireupMessage) progress(r *Request) error {
	if err := r.sendProof(); err != nil {
		return err
	}
	return r.sendControl(proto.IDWireup, uct.SendSignaled)
}

func (wireupMessage) pack(r *Request, dst []byte) int {
	if r.step == stepProof {
		return r.packProof(dst)
	}
	return copy(dst, r.data.buf)
}

// wireupHeader is how much longer than an address a message is that has one, about.
const wireupHeader = 64

// sendWireup sends one wireup message with the given address. The error says
// that there is no way to; one of sending arrives like that of any message.
func (ep *Endpoint) sendWireup(t proto.WireupType, dst proto.EndpointID, addr proto.WorkerAddress) error {
	return ep.sendWireupBy(wireupMessage{}, t, dst, addr)
}

func (ep *Endpoint) sendWireupBy(p protocol, t proto.WireupType, dst proto.EndpointID, addr proto.WorkerAddress) error {
	m := proto.Wireup{Type: t, ErrMode: proto.ErrMode(ep.errMode), ConnSN: ep.connSN, SrcEp: ep.localID, DstEp: dst, Address: addr}
	size := wireupHeader
	if len(addr.Devices) > 0 {
		size += len(ep.w.address)
	}
	packed, err := m.Append(make([]byte, 0, size))
	k := ep.wireupLane(t)
	if most := ep.maxMessage(k); err == nil && len(packed) > most {
		err = fmt.Errorf("%d bytes, the limit of a message is %d: %w", len(packed), most, ucs.ErrBufferTooSmall)
	}
	if err != nil {
		err = ep.nameIn(fmt.Errorf("wireup message: %w", err))
		ep.w.ctx.log.Debug("wireup message cannot be sent", zap.Error(err))
		return err
	}
	ep.w.stats.WireupSent++
	r := ep.control(p)
	r.lane, r.data.buf, r.step = k, packed, ep.firstStep(t)
	r.run()
	return nil
}

// requestWireup asks the peer for its id. The address has exactly the resources
// and attributes of the worker address: C 1.22.0 gives up when its choice of
// lanes changes. That of lanes that are connected pairwise has these alone.
func (ep *Endpoint) requestWireup() error {
	err := ep.w.packAddress()
	if err != nil {
		return err
	}
	ep.state |= epRequested // the reply may come inside the call
	if ep.remoteID == 0 {
		ep.report(life.Asked, nil)
	}
	ep.w.stream.expect()
	addr := ep.wireupAddress()
	if ep.pair != nil {
		if addr, err = ep.laneAddress(allLanes, ep.pair.number); err != nil {
			ep.state &^= epRequested
			return err
		}
	}
	addr.Token = ep.w.tokenFor(ep.where.address.UUID)
	var to proto.EndpointID // not known yet
	if ep.conn() != nil {
		to = ep.remoteID
	}
	if err = ep.sendWireup(proto.WireupRequest, to, addr); err != nil {
		ep.state &^= epRequested
	}
	return err
}

// repeatRequest does that once more; it is done twice at most. What was not done yet
// will be done twice.
func (ep *Endpoint) repeatRequest() {
	if ep.state&epRequested == 0 {
		ep.state |= epTwice
		return
	}
	if ep.state&epRepeated != 0 {
		ep.state |= epInsisted
	}
	ep.state |= epRepeated
	if ep.requestWireup() != nil {
		ep.state |= epRequested // the first one is on its way
	}
}
