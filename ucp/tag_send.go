package ucp

import (
	"errors"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// tagFamily is the family of tagged messages: each send carries a tag, and each receive asks for
// tags.
type tagFamily struct{ noFamily }

func (tagFamily) about() familyInfo { return familyInfo{name: "tag", features: FeatureTag} }

func (tagFamily) handlers(w *Worker) []handler {
	return []handler{
		{proto.IDEagerOnly, w.tag.onEagerOnly()},
		{proto.IDEagerFirst, w.tag.onEagerFirst},
		{proto.IDEagerMiddle, w.tag.onEagerMiddle},
		{proto.IDEagerSyncOnly, w.tag.onEagerSyncOnly},
		{proto.IDEagerSyncFirst, w.tag.onEagerSyncFirst},
		{proto.IDEagerSyncAck, w.tag.onEagerSyncAck},
	}
}

// Flags and parameters that tagged sends and receives accept.
var (
	callTagSend = callRule{"a tagged send", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory}
	callTagRecv = callRule{"a tagged receive", accessFlags, paramBuffer | paramOnTagRecv | paramTagInfo | paramMemoryType}
)

// tagState is the state of a worker for tagged messages.
type tagState struct {
	w        *Worker
	on       bool          // tagged messages may be used
	free     []*TagMessage // idle message objects
	taken    messageList   // messages that the application has taken
	detached messageList   // incomplete messages whose receives were canceled

	tagMatcher // last, because it is large: a field behind it costs a check for nil
}

func (tagFamily) start(w *Worker) { w.tag.on, w.tag.hash = true, newTagHash() }
func (tagFamily) halt(w *Worker)  { w.tag.on = false }

// stop cancels the posted receives and drops the messages that were not received.
func (tagFamily) stop(w *Worker) error {
	w.tag.cancelReceives()
	w.tag.dropMessages()
	w.tag.free = nil
	return nil
}

// evict drops the unexpected messages that came over a connection.
func (tagFamily) evict(s *source, _ error) {
	w := s.w
	w.tag.list()
	for d := s.messages.head; d != nil; d = s.messages.head {
		w.tag.discardMessage(d)
	}
}

// count derives the number of tagged sends from the other counters, and adds the receives that
// were posted.
func (tagFamily) count(w *Worker, s *Stats) {
	s.TagRecvs += w.tag.sn
	s.TagSends = s.EagerShort + s.EagerBcopy + s.EagerZcopy + s.EagerMulti + s.RndvSends - s.AMSends - s.StreamSends
}

// tagTables are an endpoint's decision tables for tagged messages.
type tagTables struct {
	plain, sync *proto.MessageTables
}

// The forms of tagged messages: plain, and those whose sender waits for the match.
var (
	tagForm = messageForm{
		name:   "tag",
		only:   packetForm{id: proto.IDEagerOnly, size: proto.EagerOnlySize, put: putTagOnly},
		first:  packetForm{id: proto.IDEagerFirst, size: proto.EagerFirstSize, put: putTagFirst},
		middle: packetForm{id: proto.IDEagerMiddle, size: proto.EagerMiddleSize, put: putTagMiddle},
		word:   func(r *Request) uint64 { return uint64(r.tag) },
		offer:  offerTag,
		tables: func(c *epConfig) *proto.MessageTables { return c.tag.plain },
	}
	tagSyncForm = messageForm{
		name:   "tag",
		only:   packetForm{id: proto.IDEagerSyncOnly, size: proto.EagerSyncOnlySize, put: putTagSyncOnly},
		first:  packetForm{id: proto.IDEagerSyncFirst, size: proto.EagerSyncFirstSize, put: putTagSyncFirst},
		middle: packetForm{id: proto.IDEagerMiddle, size: proto.EagerMiddleSize, put: putTagMiddle},
		offer:  offerTag,
		tables: func(c *epConfig) *proto.MessageTables { return c.tag.sync },
		acked:  true,
		needs:  needID,
	}
)

func putTagOnly(r *Request, dst []byte) int { return proto.EagerOnly{Tag: proto.Tag(r.tag)}.Put(dst) }

func putTagFirst(r *Request, dst []byte) int { return tagFirst(r).Put(dst) }

func putTagMiddle(r *Request, dst []byte) int {
	return proto.EagerMiddle{MsgID: r.msgID, Offset: r.offset}.Put(dst)
}

func putTagSyncOnly(r *Request, dst []byte) int {
	return proto.EagerSyncOnly{Tag: proto.Tag(r.tag), EpID: r.ep.remoteID, ReqID: proto.RequestID(r.localID)}.Put(dst)
}

func putTagSyncFirst(r *Request, dst []byte) int {
	return proto.EagerSyncFirst{EagerFirst: tagFirst(r), EpID: r.ep.remoteID, ReqID: proto.RequestID(r.localID)}.Put(dst)
}

func tagFirst(r *Request) proto.EagerFirst {
	return proto.EagerFirst{Tag: proto.Tag(r.tag), TotalLen: r.data.Length, MsgID: r.msgID}
}

func offerTag(r *Request) (proto.RndvOp, uint64) { return proto.RndvTag, uint64(r.tag) }

// configure makes the endpoint configuration's decision tables for tagged messages.
func (tagFamily) configure(c *epConfig, in *proto.ProtoInput) {
	c.tag.plain = proto.NewMessageTables(in, proto.MessageForm{
		Op: "tagged message by ucp_tag_send*", Only: tagForm.only.size, First: tagForm.first.size, Short: true,
	})
	c.tag.sync = proto.NewMessageTables(in, proto.MessageForm{
		Op: "synchronous tagged message by ucp_tag_send_sync*", Only: tagSyncForm.only.size, First: tagSyncForm.first.size,
	})
	if c.mapMDs != 0 {
		c.offerMapped(c.tag.plain)
		c.offerMapped(c.tag.sync)
	}
	c.short, c.copyBelow = maxShort(c.tag.plain), copiedBelow(c.tag.plain)
}

// explain returns the decision tables for contiguous memory, and for mapped memory if the peer
// may map memory of this process.
func (tagFamily) explain(_ *Endpoint, c *epConfig) []proto.TableInfo {
	list := []proto.TableInfo{
		c.tag.plain.Explain(proto.DataContig, 0),
		c.tag.sync.Explain(proto.DataContig, 0),
		c.tag.plain.Explain(proto.DataContig, proto.SendFast),
		c.tag.plain.Explain(proto.DataContig, proto.SendMulti),
	}
	if c.mapMDs != 0 {
		list = append(list, c.tag.plain.Explain(proto.DataMapped, 0))
	}
	return list
}

// TagSend sends buf as a message labeled tag. Done means that buf may be reused, not that
// the receiver has the message. Messages of one endpoint that match the same receive are
// received in the order in which they were sent; in ThreadModeMulti this holds for the
// messages of one goroutine.
func (ep *Endpoint) TagSend(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() || p != nil || !ep.w.owner.available() || len(buf) >= int(ep.shortBelow) {
		return sendTag(ep, tag, buf, p)
	}
	w := ep.w
	w.owner.gate |= gateInside
	if err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, w.pool.spareComp); err != nil {
		r, err := ep.sentShort(err, tag, buf, nil) // as sendShort, without another call
		w.owner.release()
		return r, err
	}
	w.stats.EagerShort++
	w.owner.release()
	return nil, nil
}

// sendTag is TagSend for all but the shortest way.
//
//go:noinline
func sendTag(ep *Endpoint, tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.TagSend", ep == nil)
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		return w.tag.delegateSend(ep, tag, buf, p, &tagForm, 0)
	}
	if p == nil && ep.shortBelow > 0 && len(buf) >= int(ep.shortBelow) && len(buf) < int(ep.cfg.copyBelow) {
		if r, err := w.sendCopied(ep, &tagForm, uint64(tag), buf); err == nil {
			w.owner.release()
			return r, nil
		}
	}
	if len(buf) >= int(ep.shortBelow) || p != nil && !p.plainSend() {
		r, err := ep.w.tag.describeTagSend(ep, tag, buf, p, &tagForm, 0)
		w.owner.release()
		return r, err
	}
	r := w.pool.spare // as sendShort, without another call
	err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.owner.release()
		return nil, nil
	}
	r, err = ep.sentShort(err, tag, buf, p)
	w.owner.release()
	return r, err
}

// TagSendSync is like TagSend, but the request is done when the receiver has matched the message;
// its data may still be on the way. TagSendSync always returns a request.
func (ep *Endpoint) TagSendSync(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.TagSendSync", ep == nil)
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		return w.tag.delegateSend(ep, tag, buf, p, &tagSyncForm, stateNoImm)
	}
	r, err := ep.w.tag.describeTagSend(ep, tag, buf, p, &tagSyncForm, stateNoImm)
	w.owner.release()
	return r, err
}

// delegateSend delegates a send to the goroutine that owns the worker.
func (ts *tagState) delegateSend(ep *Endpoint, tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	w := ep.w
	c := w.newCall(startTagSend).with(p)
	c.ep, c.tag, c.buf, c.form, c.state, c.rule = ep, tag, buf, form, flags, &callTagSend
	c.detached = form == &tagForm && p == nil && len(buf) <= smallBytes && w.ctx.params.Features&FeatureTag != 0
	return c.delegate()
}

// startTagSend starts a send of any kind.
func startTagSend(c *call) (*Request, error) {
	ep := c.ep
	if c.form == &tagForm && len(c.buf) < int(ep.shortBelow) && (c.p == nil || c.p.plainSend()) {
		return ep.sendShort(c.tag, c.buf, c.p)
	}
	return ep.w.tag.describeTagSend(ep, c.tag, c.buf, c.p, c.form, c.state)
}

// sendShort sends a short message by one call of the transport, if the transport takes the
// message now.
func (ep *Endpoint) sendShort(tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	r := w.pool.spare // used only if the send is still in flight after the call
	err := ep.ue.AMShort(uct.AMID(proto.IDEagerOnly), uint64(tag), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		return nil, nil
	}
	return ep.sentShort(err, tag, buf, p)
}

// sentShort continues a short send for which the transport has returned err: ucs.InProgress if
// the message is not sent yet, another error if the transport has not taken it.
func (ep *Endpoint) sentShort(err error, tag Tag, buf []byte, p *RequestParams) (*Request, error) {
	if err != ucs.InProgress {
		return ep.w.tag.describeTagSend(ep, tag, buf, p, &tagForm, 0) // queues the message, or returns the error of the call
	}
	return ep.inFlightAfter(&tagForm, eagerShort{}, p), nil
}

func (ts *tagState) describeTagSend(ep *Endpoint, tag Tag, buf []byte, p *RequestParams, form *messageForm, flags requestState) (*Request, error) {
	if ep.w.ctx.params.Features&FeatureTag == 0 {
		return nil, ep.w.missingFeature("TagSend", FeatureTag)
	}
	r, err := ep.describeSend(&callTagSend, buf, p)
	if err != nil {
		return nil, err
	}
	r.tag, r.state = tag, r.state|flags
	return ep.sendMessage(r, form, p.flags())
}

// A synchronous send is complete when the receiver's acknowledgement has arrived. A rendezvous is
// acknowledged by its own messages.

// syncAck tells the sender of a synchronous message that it was matched.
type syncAck struct{ answer }

func (syncAck) about() protocolInfo { return protocolInfo{name: "sync ack"} }

func (syncAck) progress(r *Request) error { return r.sendControl(proto.IDEagerSyncAck, 0) }

func (syncAck) pack(r *Request, dst []byte) int {
	return proto.EagerSyncAck{ReqID: proto.RequestID(r.peerID), Status: r.ackStatus}.Put(dst)
}

// sendSyncAck acknowledges a synchronous message over the endpoint that the sender named. An
// acknowledgement that has to wait is charged to from. If the endpoint is gone, the
// acknowledgement is dropped, because nothing waits for it.
func (ts *tagState) sendSyncAck(from *source, id proto.EndpointID, req proto.RequestID, status ucs.Status) {
	w := ts.w
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return
	}
	w.stats.SyncAcks++
	r := ep.control(syncAck{})
	r.peerID, r.ackStatus = uint64(req), status
	ep.w.replies.answer(ep, r, answerSync, from)
}

// refuseSync tells the sender of a synchronous message that came over shared memory (src is nil) that a
// limit refuses the message. C UCX takes every acknowledgement for a match, so it is not told.
func (ts *tagState) refuseSync(src *uct.Source, id proto.EndpointID, req proto.RequestID, err error) {
	if src != nil || !errors.Is(err, ucs.ErrExceedsLimit) {
		return
	}
	if ep := ts.w.endpoints.Get(uint64(id)); ep != nil && ep.remoteID.Marked() {
		ts.sendSyncAck(&ts.w.accounts.unnamed, id, req, ucs.StatusOf(err))
	}
}

// onEagerSyncAck receives the acknowledgement that a synchronous message was matched.
func (ts *tagState) onEagerSyncAck(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := ts.w
	h, err := proto.ParseEagerSyncAck(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindEager) || !r.form.acked {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	r.w.eager.acknowledged(r, h.Status.Err())
	return nil
}

// offers returns the handler of offers of tagged messages.
func (tagFamily) offers(w *Worker) (proto.RndvOp, offerHandler) {
	return proto.RndvTag, w.tag.onTagOffer
}

// onTagOffer matches an offer with a receive, or keeps the offer until there is one.
func (ts *tagState) onTagOffer(src *uct.Source, h proto.RndvRTS, key, _ []byte) error {
	w := ts.w
	tag := Tag(h.Header)
	if r := ts.matchExpected(tag); r != nil {
		ts.fetchTagged(r, &h, key)
		return nil
	}
	if n := len(key); n == proto.MinRkeySize || n > maxOfferKey {
		key = nil // the key opens nothing, or nothing that is mapped
	}
	from := w.accounts.sourceOf(src)
	if err := from.Charge(messageSize + len(key)); err != nil {
		return err
	}
	w.stats.Unexpected++
	d := ts.newMessage(from, tag, messageRndv, h.Size)
	d.rndv, d.data = h, nil
	if len(key) > 0 {
		d.keep(key, nil)
	}
	ts.addUnexpected(d)
	return nil
}

// maxOfferKey is the length, in bytes, of the longest key that is kept with an offer.
const maxOfferKey = 2048

// fetchTagged fetches the data of an offer that a receive has matched.
func (ts *tagState) fetchTagged(r *Request, h *proto.RndvRTS, key []byte) {
	w := ts.w
	r.info = TagRecvInfo{SenderTag: Tag(h.Header), Length: h.Size}
	w.rndv.fetch(r, h, key)
}
