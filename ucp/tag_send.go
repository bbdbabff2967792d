package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TagSend sends buf as a message labeled tag. Done means that buf may be reused, not that
// the receiver has the message. Messages of one endpoint that match the same receive are
// received in the order in which they were sent; in ThreadModeMulti this holds for the
// messages of one goroutine.
func (ep *Endpoint) TagSend(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.TagSend", ep == nil)
	}
	w := ep.w
	if p != nil && !p.plainSend() || !w.seize() {
		return ep.tagSend(tag, buf, p, &tagForm, 0)
	}
	if len(buf) > int(ep.short) {
		r, err := ep.beginTagSend(tag, buf, p, &tagForm, 0)
		w.exit()
		return r, err
	}
	r := w.spare // sendShort, without another call
	err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.exit()
		return nil, nil
	}
	r, err = ep.sentShort(err, tag, buf, p)
	w.exit()
	return r, err
}

// TagSendSync is like TagSend, but the request is done when the receiver has matched the
// message; its data may still be on the way. It always returns a request.
func (ep *Endpoint) TagSendSync(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.TagSendSync", ep == nil)
	}
	return ep.tagSend(tag, buf, p, &tagSyncForm, stateNoImm)
}

// tagSend is the call of a send of any kind.
func (ep *Endpoint) tagSend(tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	w := ep.w
	if !w.begin() {
		c := w.newCall(startTagSend).with(p)
		c.ep, c.tag, c.buf, c.form, c.state, c.rule = ep, tag, buf, form, flags, &callTagSend
		c.brief = form == &tagForm && p == nil && len(buf) <= smallBytes && w.ctx.params.Features&FeatureTag != 0
		return c.leave()
	}
	r, err := ep.beginTagSend(tag, buf, p, form, flags)
	w.exit()
	return r, err
}

func startTagSend(c *call) (*Request, error) {
	return c.ep.beginTagSend(c.tag, c.buf, c.p, c.form, c.state)
}

// beginTagSend starts a send of any kind.
func (ep *Endpoint) beginTagSend(tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	if form == &tagForm && len(buf) <= int(ep.short) && (p == nil || p.plainSend()) {
		return ep.sendShort(tag, buf, p)
	}
	return ep.describeTagSend(tag, buf, p, form, flags)
}

// sendShort sends a short message by one call of the transport, if it takes it now.
func (ep *Endpoint) sendShort(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	r := w.spare // used only if the send goes on after the call
	err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		return nil, nil
	}
	return ep.sentShort(err, tag, buf, p)
}

// sentShort goes on where the transport has not taken it, or not sent it yet.
func (ep *Endpoint) sentShort(err error, tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if err != ucs.InProgress {
		return ep.describeTagSend(tag, buf, p, &tagForm, 0) // queues it, or says what is wrong
	}
	return ep.shortGoes(&tagForm, p), nil
}

func (ep *Endpoint) describeTagSend(tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	if ep.w.ctx.params.Features&FeatureTag == 0 {
		return nil, ep.w.lacks("TagSend", FeatureTag)
	}
	r, err := ep.describeSend(&callTagSend, buf, p)
	if err != nil {
		return nil, err
	}
	r.tag, r.state = tag, r.state|flags
	return ep.sendMessage(r, form, p.flags())
}
