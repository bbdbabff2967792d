package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A tagged send takes one of these ways, by length:
//
//	short        inline, straight from TagSend where nothing stands in the way
//	bcopy        copied into the transport's buffer
//	zcopy        header and user memory in one transport call
//	multi        first fragment and middles, each bcopy or zcopy
//	rendezvous   an offer; the receiver says where the data goes (rndv_send.go)
//
// All first packets of an endpoint go over one lane and in order, so messages
// match in the order they were sent. A synchronous send is the same with
// another header; it is over when the receiver's acknowledgement is here.

// TagSend sends buf as a message labeled tag. Done means that buf may be
// reused, not that the receiver has it. Messages of one endpoint that match the
// same receive are received in the order they were sent.
func (ep *Endpoint) TagSend(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if len(buf) > ep.short || p != nil && !p.plain() {
		return ep.tagSend(tag, buf, p, 0)
	}
	w := ep.w
	r := w.spare // used only if the send goes on after the call
	err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		return nil, nil
	}
	if err != ucs.InProgress {
		return ep.tagSend(tag, buf, p, 0) // queues it, or says what is wrong
	}
	w.spare = w.getRequest()
	w.stats.EagerShort++
	r.ep, r.proto = ep, &eagerShort
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
	return r, nil
}

// TagSendSync is TagSend whose request is done when the receiver has matched the
// message; its data may still be on the way. It always returns a request.
func (ep *Endpoint) TagSendSync(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	return ep.tagSend(tag, buf, p, stateSync|stateNoImm)
}

// plain reports whether p asks for nothing that the short path cannot do.
func (p *RequestParams) plain() bool {
	return p.Attr&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost
}

// tagSend starts a send of any kind.
func (ep *Endpoint) tagSend(tag Tag, buf []byte, p *RequestParams, flags requestState) (*Request, error) {
	w := ep.w
	if w.ctx.params.Features&FeatureTag == 0 {
		return nil, ucs.ErrInvalidParam
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	r, err := w.useRequest(p)
	if err != nil {
		return nil, err
	}
	var buffer *Buffer
	var attr OpFlags
	if p != nil {
		buffer, attr = &p.Buffer, p.Attr
	}
	if err := r.data.initSend(buf, buffer); err != nil {
		w.dropRequest(r)
		return nil, err
	}
	r.ep, r.tag, r.state = ep, tag, r.state|flags
	r.offset, r.arrived, r.ranges, r.parts = 0, 0, rangeset.Set{}, nil
	class := r.class()
	if class == proto.DataContig && r.data.length >= ep.cfg.mapFrom {
		if r.region = w.ctx.table.FindMapped(memoryAddress(r.data.buf), r.data.length, ep.cfg.mapMDs); r.region != nil {
			class = proto.DataMapped
		}
	}
	r.proto = protocolOf[ep.cfg.tag.Send(flags&stateSync != 0, class, sendMode(attr)).Lookup(r.data.length)]
	if r.region != nil && r.proto != &rndvRTS {
		r.region.Release()
		r.region = nil
	}
	if r.proto == nil {
		w.dropRequest(r)
		return nil, ucs.ErrUnsupported
	}
	if !r.sendHandles(p) {
		r.proto = protocolOf[ep.cfg.tag.Send(flags&stateSync != 0, proto.DataGeneric, sendMode(attr)).Lookup(r.data.length)]
	}
	if r.proto == &eagerMultiBcopy || r.proto == &eagerMultiZcopy {
		w.nextMessageID++
		r.msgID = w.nextMessageID
	}
	if attr&OpForceImmediate != 0 {
		return ep.tagSendNow(r)
	}
	needID := r.state&stateSync != 0 || r.proto == &rndvRTS
	if needID {
		if id := w.requestIDs.Put(r); id != 0 {
			r.localID = id
		} else {
			w.dropRequest(r)
			return nil, ucs.ErrNoMemory
		}
	}
	ep.start(r, needID)
	return r.result()
}

// tagSendNow sends in one step or not at all.
func (ep *Endpoint) tagSendNow(r *Request) (*Request, error) {
	err := error(ucs.ErrNoResource)
	if ep.waiting.head == nil && r.state&stateSync == 0 && (r.proto == &eagerShort || r.proto == &eagerBcopy) {
		_, err = ep.ue.AMBcopy(uct.AMID(proto.IDEagerOnly), eagerOnlyPacker{r}, uct.SendNow, nil)
	}
	if err == nil || err == ucs.InProgress {
		// What a transport has begun to write leaves without further ado.
		err = nil
		ep.w.stats.EagerBcopy++
		if r.frag < r.data.length {
			err = r.packedNothing(r.frag)
		}
	}
	ep.w.dropRequest(r)
	return nil, err
}

// eagerOnlyPacker packs a whole message whatever the request's protocol is.
type eagerOnlyPacker struct{ r *Request }

func (p eagerOnlyPacker) Pack(dst []byte) int { return packEager(p.r, dst) }
