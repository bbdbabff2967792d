package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TagSend sends buf as a message labeled tag. Done means that buf may be
// reused, not that the receiver has it. Messages of one endpoint that match the
// same receive are received in the order they were sent.
func (ep *Endpoint) TagSend(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if len(buf) > ep.short || !w.free() || p != nil && !p.plainSend() {
		return ep.tagSend(tag, buf, p, &tagForm, 0)
	}
	w.gate |= gateInside
	r := w.spare // used only if the send goes on after the call
	err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.exit()
		return nil, nil
	}
	if err != ucs.InProgress {
		w.exit()
		return ep.tagSend(tag, buf, p, &tagForm, 0) // queues it, or says what is wrong
	}
	w.spare = w.getRequest()
	w.stats.EagerShort++
	r.toward(ep)
	r.form, r.proto = &tagForm, eagerShort{}
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
	w.exit()
	return r, nil
}

// TagSendSync is TagSend whose request is done when the receiver has matched the
// message; its data may still be on the way. It always returns a request.
func (ep *Endpoint) TagSendSync(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	return ep.tagSend(tag, buf, p, &tagSyncForm, stateNoImm)
}

// tagSend is the call of a send of any kind.
func (ep *Endpoint) tagSend(tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	ep.w.enter()
	r, err := ep.startTagSend(tag, buf, p, form, flags)
	ep.w.exit()
	return r, err
}

func (ep *Endpoint) startTagSend(tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	w := ep.w
	if w.ctx.params.Features&FeatureTag == 0 {
		return nil, ucs.ErrInvalidParam
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if err := callTagSend.check(buf, p); err != nil {
		return nil, err
	}
	r, err := w.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.tag, r.state = tag, r.state|flags
	if p == nil {
		p = &noParams
	}
	err = r.data.initSend(buf, &p.Buffer)
	if err == nil {
		err = p.checkMemory(w.ctx, &r.data)
	}
	if err != nil {
		w.dropRequest(r)
		return nil, err
	}
	r.give(p.Memory)
	return ep.sendMessage(r, form, p.Flags)
}
