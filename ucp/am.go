package ucp

import (
	"context"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/bufpool"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// amFamily is the family of active messages. Each message names, by an id, a function of the
// receiver that is called with it. Active messages are sent like tagged messages, by any of the
// protocols listed in operation.go; am.go describes their packets. A message that arrives in one
// packet, in fragments (am_recv.go) or as a rendezvous offer goes to a handler (am_recv.go) or into
// a queue (am_queue.go).
type amFamily struct{ noFamily }

func (amFamily) about() familyInfo { return familyInfo{name: "am", features: FeatureAM} }

// handlers also sets the limit of the application's headers. It is called once for each interface
// that is opened.
func (amFamily) handlers(w *Worker) []handler {
	w.am.maxHeader = w.am.maxAMHeader()
	return []handler{
		{proto.IDAMSingle, w.am.onAMSingle()},
		{proto.IDAMSingleReply, w.am.onAMSingleReply},
		{proto.IDAMFirst, w.am.onAMFirst},
		{proto.IDAMMiddle, w.am.onAMMiddle},
	}
}

func (amFamily) start(w *Worker) { w.am.on = true }
func (amFamily) halt(w *Worker)  { w.am.on = false }

// stop drops the messages in queues, and the kept messages whose data is in memory of a transport,
// because the transport frees that memory.
func (amFamily) stop(w *Worker) error {
	for len(w.am.queues) > 0 {
		w.am.queues[0].close()
	}
	for !w.am.borrowed.Empty() {
		w.am.borrowed.Front().Value.drop()
	}
	w.am.free, w.am.idle = list.Stack[AMMessage]{}, 0
	return nil
}

// evict drops the messages in queues that came over the connection s. A message of s whose data is
// being fetched is dropped when the fetch ends.
func (amFamily) evict(s *source, _ error) {
	for !s.actives.Empty() {
		m := s.actives.First().Value
		m.leaveQueue()
		m.drop()
	}
	for _, q := range s.w.am.queues {
		for _, a := range platform.Ordered(q.senderQueues, (*senderQueue).compare) {
			a.giveUpFetch(s)
			q.makeReady(a) // the aside may be empty now
		}
	}
}

// configure makes the endpoint configuration's decision tables for active messages.
func (amFamily) configure(c *epConfig, in *proto.ProtoInput) {
	const op = "active message by ucp_am_send_nbx"
	size := func(p *packetForm) int { return p.size + p.footer }
	plain, reply := &amForms[0][0], &amForms[1][0]
	c.am.plain = proto.NewMessageTables(in, proto.MessageForm{Op: op, Only: size(&plain.only), First: size(&plain.first), Short: true})
	c.am.reply = proto.NewMessageTables(in, proto.MessageForm{Op: op + " with reply flag", Only: size(&reply.only), First: size(&reply.first)})
	if c.mapMDs != 0 {
		c.offerMapped(c.am.plain)
		c.offerMapped(c.am.reply)
	}
	c.shortAM, c.copyAMBelow = maxShort(c.am.plain), copiedBelow(c.am.plain)
}

// explain returns the decision tables for contiguous memory, and those for mapped memory if the
// peer may map memory of this process.
func (amFamily) explain(_ *Endpoint, c *epConfig) []proto.TableInfo {
	list := []proto.TableInfo{
		c.am.plain.Explain(proto.DataContig, 0),
		c.am.reply.Explain(proto.DataContig, 0),
	}
	if c.mapMDs != 0 {
		list = append(list, c.am.plain.Explain(proto.DataMapped, 0))
	}
	return list
}

// AMSendFlags modify the sending of an active message (enum ucp_send_am_flags).
type AMSendFlags uint32

// Flags of active messages, with C's bit numbers.
const (
	// AMSendReply gives the receiver's handler an endpoint to reply on.
	AMSendReply AMSendFlags = 1 << 0

	// AMSendEager sends the data at once, whatever its length, and takes precedence over
	// AMSendRndv.
	AMSendEager AMSendFlags = 1 << 1

	// AMSendRndv sends the data by rendezvous, whatever its length: the receiver is offered
	// the data and fetches it.
	AMSendRndv AMSendFlags = 1 << 2

	// AMSendCopyHeader copies the header, so that the caller may reuse it when the call
	// returns.
	AMSendCopyHeader AMSendFlags = 1 << 3

	amSendFlags = AMSendReply | AMSendEager | AMSendRndv | AMSendCopyHeader
)

// amForms are the forms of active messages. The first index is 1 for messages that name an endpoint
// to reply on. The second index is 0 if the length decides between eager and rendezvous, 1 for
// always eager, 2 for always rendezvous.
var amForms = [2][3]messageForm{
	{
		newAMForm(false, false, func(c *epConfig) *proto.MessageTables { return c.am.plain }),
		newAMForm(false, false, func(c *epConfig) *proto.MessageTables { return c.am.eager(0, c.am.plain) }),
		newAMForm(false, true, func(c *epConfig) *proto.MessageTables { return c.am.plain }),
	}, {
		newAMForm(true, false, func(c *epConfig) *proto.MessageTables { return c.am.reply }),
		newAMForm(true, false, func(c *epConfig) *proto.MessageTables { return c.am.eager(1, c.am.reply) }),
		newAMForm(true, true, func(c *epConfig) *proto.MessageTables { return c.am.reply }),
	},
}

// plainAM is the form of messages without flags.
var plainAM = &amForms[0][0]

// amFormOf returns the form for the flags of a send.
func amFormOf(flags AMSendFlags) *messageForm {
	forms := &amForms[flags&AMSendReply]
	switch {
	case flags&AMSendEager != 0:
		return &forms[1]
	case flags&AMSendRndv != 0:
		return &forms[2]
	}
	return &forms[0]
}

// newAMForm returns the form of active messages that name an endpoint to reply on or not (reply),
// and are always sent by rendezvous or not (offered). All fragments contain the id of the
// receiver's endpoint, and so do messages of one packet with reply set.
func newAMForm(reply, offered bool, tables func(*epConfig) *proto.MessageTables) messageForm {
	f := messageForm{
		name: "am",
		only: packetForm{id: proto.IDAMSingle, size: proto.AMHeaderSize, put: putAMHeader, tail: tail{headed: true}},
		first: packetForm{id: proto.IDAMFirst, size: proto.AMHeaderSize, put: putAMHeader,
			tail: tail{true, proto.AMFirstFooterSize, putAMFirst}},
		middle: packetForm{id: proto.IDAMMiddle, size: proto.AMHeaderSize, put: putAMMiddle,
			tail: tail{false, proto.AMMiddleFooterSize, putAMMiddleFooter}},
		word:       func(r *Request) uint64 { return amHeader(r).Word() },
		offer:      func(r *Request) (proto.RndvOp, uint64) { return proto.RndvAM, amHeader(r).Word() },
		sends:      func(s *Stats) *uint64 { return &s.AMSends },
		tables:     tables,
		offered:    offered,
		active:     true,
		partsNeeds: needID,
	}
	if reply {
		f.only.id, f.needs = proto.IDAMSingleReply, needID
		f.only.tail = tail{true, proto.AMReplyFooterSize, putAMReply}
	}
	return f
}

// amHeader returns the header of the message. AMSendReply is the only flag in it, because the
// receiver looks at no other.
func amHeader(r *Request) proto.AMHeader {
	return proto.AMHeader{ID: r.am.id, Flags: uint16(r.am.flags & AMSendReply), HeaderLen: uint32(len(r.am.header))}
}

func putAMHeader(r *Request, dst []byte) int { return amHeader(r).Put(dst) }

func putAMReply(r *Request, dst []byte) int {
	return proto.AMReplyFooter{EpID: r.ep.remoteID}.Put(dst)
}

func putAMFirst(r *Request, dst []byte) int {
	return proto.AMFirstFooter{MsgID: r.msgID, EpID: r.ep.remoteID, TotalLen: r.data.Length}.Put(dst)
}

func amMiddle(r *Request) proto.AMMiddle {
	return proto.AMMiddle{Offset: r.offset, MsgID: r.msgID, EpID: r.ep.remoteID}
}

func putAMMiddle(r *Request, dst []byte) int       { return amMiddle(r).PutHeader(dst) }
func putAMMiddleFooter(r *Request, dst []byte) int { return amMiddle(r).PutFooter(dst) }

// amTables are an endpoint's decision tables for active messages.
type amTables struct {
	plain, reply *proto.MessageTables
	eagerOnly    [2]*proto.MessageTables // plain and reply tables without rendezvous, made when first used
}

func (t *amTables) eager(k int, of *proto.MessageTables) *proto.MessageTables {
	if t.eagerOnly[k] == nil {
		t.eagerOnly[k] = of.WithoutRendezvous()
	}
	return t.eagerOnly[k]
}

// amEntry is the receiver of the messages of an id: a handler or a queue.
type amEntry struct {
	fn    AMHandler
	queue *AMQueue // if not nil, messages go here and fn is nil
	flags AMHandlerFlags
}

// amState is the state of a worker for active messages.
type amState struct {
	w         *Worker
	on        bool
	maxHeader int

	free     list.Stack[AMMessage] // idle message objects
	idle     int
	rested   uint                   // the place in resting, modulo its length, of the one that has rested longest
	resting  [restingAMs]*AMMessage // released most recently, not reused yet
	borrowed list.List[AMMessage]   // kept messages whose data is in memory of a transport
	queues   []*AMQueue

	joined [joinedSize]byte // data and header of a short message that is being sent

	keptOverLimit bool          // kept messages that came through shared memory exceed the limit (setKeptOverLimit)
	warned        bool          // a message without handler was logged
	warnAt        time.Duration // earliest time at which it is logged again

	table [256]*[256]amEntry // indexed by the high byte of the id, then by the low byte

	// direct are the handlers of small ids to which a message can be passed at once: not queues, nor handlers
	// with AMPersistentData, and none while keptOverLimit is set.
	direct [directIDs]AMHandler
}

// directIDs is the number of ids that amState.direct has: those of proto.IsPlainAM.
const directIDs = 256

// set sets the handler or queue for an id.
func (s *amState) set(id uint16, e amEntry) {
	t := s.table[id>>8]
	if t == nil {
		t = new([256]amEntry)
		s.table[id>>8] = t
	}
	t[id&0xFF] = e
	if id < directIDs && !s.keptOverLimit {
		s.direct[id] = e.direct()
	}
}

// direct returns the handler if it belongs into amState.direct, else nil.
func (e *amEntry) direct() AMHandler {
	if e.queue != nil || e.flags&AMPersistentData != 0 {
		return nil
	}
	return e.fn
}

func (s *amState) setKeptOverLimit(over bool) {
	s.keptOverLimit, s.direct = over, [directIDs]AMHandler{}
	if t := s.table[0]; t != nil && !over {
		for id := range t {
			s.direct[id] = t[id].direct()
		}
	}
}

// find returns the handler or queue for an id, nil if there is neither.
func (s *amState) find(id uint16) *amEntry {
	t := s.table[id>>8]
	if t == nil {
		return nil
	}
	e := &t[id&0xFF]
	if e.fn == nil && e.queue == nil {
		return nil
	}
	return e
}

// amRequest is the state of a request that sends an active message.
type amRequest struct {
	id     uint16
	flags  AMSendFlags
	header []byte // the application's header, or a copy of it
	copied []byte // pooled memory of the copy, nil if header is the application's
	tail   []byte // pooled memory of the tails of all packets, in zero-copy sends
}

// releaseHeader returns the pooled memory of header and tails.
func (s *amRequest) releaseHeader(pool *bufpool.Pool) {
	if s.copied != nil {
		pool.Put(s.copied)
		s.copied = nil
	}
	if s.tail != nil {
		pool.Put(s.tail)
		s.tail = nil
	}
	s.header = nil
}

// copyHeader replaces the application's header by a copy in pooled memory.
func (s *amRequest) copyHeader(pool *bufpool.Pool) {
	if len(s.header) > 0 && s.copied == nil {
		s.copied = append(pool.Get(len(s.header)), s.header...)
		s.header = s.copied
	}
}

// callAMSend says which flags and parameters a send of an active message takes.
var callAMSend = callRule{"an active message", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory | paramAMFlags}

// AMSend sends an active message: the handler for id at the peer's worker gets header, of
// at most WorkerAttr.MaxAMHeader bytes, and the data buf. Done means that both may be
// reused, not that the handler has run. With AMSendCopyHeader the header may be reused when
// the call returns. If the data is sent by rendezvous (AMSendRndv, or because of its
// length), the request ends with the handler's result: an error if the handler has refused
// the data. A message for an id without a handler is dropped without notice to the sender,
// except that a rendezvous is refused with ucs.ErrInvalidParam.
//
// Messages of one endpoint that fit in one packet, and offers of data by rendezvous, are handled
// in the order in which they were sent; in ThreadModeMulti this holds for the messages of one
// goroutine. The same holds among messages of several packets. A message of one packet that was
// sent after a message of several packets may be handled before the latter, as in C 1.22.
func (ep *Endpoint) AMSend(id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() || p != nil || len(header) > 0 || !ep.w.owner.available() || len(buf) >= int(ep.shortAMBelow) {
		return sendAM(ep, id, header, buf, p)
	}
	w := ep.w
	w.owner.gate |= gateInside
	// The spare request is used only if the send is still in flight after the call.
	if err := ep.ue.AMShort(uct.AMID(proto.IDAMSingle), uint64(id), buf, 0, w.pool.spareComp); err != nil {
		r, err := ep.amSentShort(err, id, buf, nil)
		w.owner.release()
		return r, err
	}
	w.stats.EagerShort++
	w.stats.AMSends++
	w.owner.release()
	return nil, nil
}

// sendAM is AMSend for all but the shortest way.
//
//go:noinline
func sendAM(ep *Endpoint, id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.AMSend", ep == nil)
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		return w.am.delegateSend(ep, id, header, buf, p)
	}
	if p == nil && len(header) == 0 && ep.shortAMBelow > 0 && len(buf) >= int(ep.shortAMBelow) && len(buf) < int(ep.cfg.copyAMBelow) {
		if r, err := w.sendCopied(ep, plainAM, uint64(id), buf); err == nil {
			if r == nil {
				w.stats.AMSends++ // else counted
			}
			w.owner.release()
			return r, nil
		}
	}
	if n := len(header) + len(buf); n >= int(ep.shortAMBelow) || len(header) > 0 && n > joinedSize || p != nil && !p.plainSend() {
		r, err := ep.w.am.describeAMSend(ep, id, header, buf, p)
		w.owner.release()
		return r, err
	}
	if len(header) > 0 {
		r, err := w.am.sendJoined(ep, id, header, buf, p)
		w.owner.release()
		return r, err
	}
	r := w.pool.spare // as in AMSend
	err := ep.ue.AMShort(uct.AMID(proto.IDAMSingle), uint64(id), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.stats.AMSends++
		w.owner.release()
		return nil, nil
	}
	r, err = ep.amSentShort(err, id, buf, p)
	w.owner.release()
	return r, err
}

// joinedSize is the length of amState.joined.
const joinedSize = 128

// sendJoined sends a short message with a header. The transport copies or sends both in the call.
func (as *amState) sendJoined(ep *Endpoint, id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	word := proto.AMHeader{ID: id, HeaderLen: uint32(len(header))}.Word()
	n := copy(as.joined[:], buf)
	n += copy(as.joined[n:], header)
	switch err := ep.ue.AMShort(uct.AMID(proto.IDAMSingle), word, as.joined[:n], 0, as.w.pool.spareComp); err {
	case nil:
		as.w.stats.EagerShort++
		as.w.stats.AMSends++
		return nil, nil
	case ucs.InProgress:
		return ep.inFlightAfter(plainAM, eagerShort{}, p), nil
	}
	return as.describeAMSend(ep, id, header, buf, p) // queues the message, or returns the error of the call
}

// AMSendWait sends an active message as AMSend does and waits until header and buf may be
// reused, or, for a rendezvous, until the peer's handler is done with the data. If ctx ends
// first, header and buf are treated as TagSendWait treats its buffer. AMSendWait does not
// wait for a peer that does not read its replies: see the package comment.
func (ep *Endpoint) AMSendWait(ctx context.Context, id uint16, header, buf []byte, flags AMSendFlags) error {
	if ep.missing() {
		return errMissing("Endpoint.AMSendWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAMSend)
	if err != nil {
		return err
	}
	c.ep, c.amID, c.header, c.buf = ep, id, header, buf
	c.use, c.p = memoryRead, &c.params
	c.p.AMFlags = flags
	return c.wait(ctx)
}

// delegateSend delegates a send to the goroutine that owns the worker.
func (as *amState) delegateSend(ep *Endpoint, id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if err := w.am.checkAMHeader(header); err != nil {
		return nil, err
	}
	c := w.newCall(startAMSend).with(p)
	c.ep, c.amID, c.buf, c.rule = ep, id, buf, &callAMSend
	switch {
	case len(header) == 0:
		c.detached = p == nil && len(buf) <= smallBytes
	case p == nil || p.AMFlags&AMSendCopyHeader == 0:
		c.header = header
	default:
		c.header = append(c.small[:0], header...) // allocates if the header is longer than c.small
	}
	return c.delegate()
}

// startAMSend starts a send of any kind.
func startAMSend(c *call) (*Request, error) {
	ep := c.ep
	if len(c.header) > 0 || len(c.buf) >= int(ep.shortAMBelow) || c.p != nil && !c.p.plainSend() {
		return ep.w.am.describeAMSend(ep, c.amID, c.header, c.buf, c.p)
	}
	w := ep.w
	r := w.pool.spare
	err := ep.ue.AMShort(uct.AMID(proto.IDAMSingle), uint64(c.amID), c.buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.stats.AMSends++
		return nil, nil
	}
	return ep.amSentShort(err, c.amID, c.buf, c.p)
}

// amSentShort continues a short send for which the transport has returned err: ucs.InProgress if
// the message is not sent yet, another error if the transport has not taken it.
func (ep *Endpoint) amSentShort(err error, id uint16, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if err != ucs.InProgress {
		return ep.w.am.describeAMSend(ep, id, nil, buf, p) // queues the message, or returns the error of the call
	}
	r := w.pool.spare
	w.pool.nextSpare()
	w.stats.EagerShort++
	w.stats.AMSends++
	r.setEndpoint(ep)
	r.form, r.proto = plainAM, eagerShort{}
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
	return r, nil
}

func (as *amState) describeAMSend(ep *Endpoint, id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if !w.am.on {
		return nil, w.missingFeature("AMSend", FeatureAM)
	}
	if err := w.am.checkAMHeader(header); err != nil {
		return nil, err
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if err := callAMSend.check(buf, p); err != nil {
		return nil, err
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &noParams
	}
	if r.data.SetBytes(buf); p.Buffer.set {
		err = r.setBuffer(&p.Buffer, true)
	}
	if err == nil {
		err = p.checkMemory(w.ctx, &r.data)
	}
	if err != nil {
		w.pool.dropRequest(r)
		return nil, err
	}
	r.w.rights.attachMemory(r, p.Memory)
	if r.am == nil {
		r.am = new(amRequest)
	}
	r.am.id, r.am.flags, r.am.header = id, p.AMFlags, header
	req, err := ep.sendMessage(r, amFormOf(p.AMFlags), p.Flags)
	if req != nil && p.AMFlags&AMSendCopyHeader != 0 && req.state&stateDone == 0 {
		r.am.copyHeader(&w.buffers)
	}
	return req, err
}

// checkAMHeader returns ucs.ErrInvalidParam for a header that is too long for some transport of the
// worker.
func (as *amState) checkAMHeader(header []byte) error {
	if len(header) <= as.maxHeader {
		return nil
	}
	return fmt.Errorf("ucp: header of %d bytes, the limit is %d: %w", len(header), as.maxHeader, ucs.ErrInvalidParam)
}

// maxAMHeader returns the length, in bytes, of the longest header of an application that fits
// into one packet of any transport of the worker: behind an offer with the keys of all memory
// domains, and in the first fragment of a message (ucp_worker_set_max_am_header in
// src/ucp/core/ucp_worker.c).
func (as *amState) maxAMHeader() int {
	w := as.w
	offer := proto.RndvRTSSize + proto.MinRkeySize + 1 // 1 byte in which C UCX names the system device
	for _, md := range w.mds {
		offer += 1 + md.Attr().RkeyPackedSize
	}
	own := max(offer, proto.AMHeaderSize+proto.AMFirstFooterSize)
	most := -1
	for _, i := range w.ifaces {
		if i.attr.Flags.Has(uct.IfaceAMBcopy) {
			if n := max(i.attr.AM.MaxBcopy-own, 0); most < 0 || n < most {
				most = n
			}
		}
	}
	return max(most, 0)
}

// The tail of a packet of an active message is what follows the data: the application's header, in
// the first or only packet, and then the footer of the packet. In zero-copy sends the tail is one
// more entry of the I/O vector, after the data, as in C (ucp_am_eager_zcopy_add_footer in
// src/ucp/am/eager.inl).

// tail describes what follows the data in a kind of packet.
type tail struct {
	headed    bool // the application's header is part of it
	footer    int  // size of the footer in bytes
	putFooter func(r *Request, dst []byte) int
}

// tailSize returns the length of a tail in bytes.
func (as *amState) tailSize(r *Request, t *tail) int {
	if t.headed {
		return len(r.am.header) + t.footer
	}
	return t.footer
}

// putTail writes a tail at the start of dst and returns its length.
func (as *amState) putTail(r *Request, t *tail, dst []byte) (n int) {
	if t.headed {
		n = copy(dst, r.am.header)
	}
	if t.footer > 0 {
		n += t.putFooter(r, dst[n:])
	}
	return n
}

// gatherTail appends the tail of a packet to the first n entries of the request's I/O vector, and
// returns the new number of entries. The footer of a later packet is the beginning of the footer of
// the first one, so one piece of memory serves all packets.
func (as *amState) gatherTail(r *Request, n int, t *tail) int {
	size := as.tailSize(r, t)
	if size == 0 {
		return n
	}
	start := 0
	if !t.headed {
		start = len(r.am.header)
	} else {
		as.putTail(r, t, r.am.tail)
	}
	r.iov[n] = uct.IOV{Data: r.am.tail[start : start+size]}
	return n + 1
}

// fitsHeader returns ucs.ErrExceedsLimit for a header that does not fit into a packet for this
// peer, whose packets may be smaller than those of other peers.
func (as *amState) fitsHeader(r *Request) error {
	n := len(r.am.header)
	if n == 0 {
		return nil
	}
	most := r.ep.cfg.maxBcopy - max(proto.RndvRTSSize+r.ep.cfg.keys.size, proto.AMHeaderSize+proto.AMFirstFooterSize+1)
	if n > most {
		return fmt.Errorf("ucp: header of %d bytes, the peer's limit is %d: %w", n, most, ucs.ErrExceedsLimit)
	}
	return nil
}

// fitsKey reports whether an offer has room for the header and for the remote key of the memory
// that holds the data.
func (as *amState) fitsKey(r *Request) bool {
	return proto.RndvRTSSize+len(r.region.Rkey)+len(r.am.header) <= r.ep.cfg.maxBcopy
}

// tailClass returns the data class to use for a message of class c whose tail needs an entry of the
// I/O vector: DataGeneric if the application's buffer list leaves none, otherwise c.
func (as *amState) tailClass(r *Request, c proto.DataClass) proto.DataClass {
	if c == proto.DataIOV && len(r.data.List) >= r.ep.cfg.maxIOV {
		return proto.DataGeneric
	}
	return c
}

// withTail returns the protocol for a message with a tail. p is the protocol that the tables have
// chosen for size bytes, which include the header. For a zero-copy protocol withTail allocates the
// memory of the tail.
func (as *amState) withTail(r *Request, p proto.Protocol, tables *proto.MessageTables, size int) proto.Protocol {
	switch {
	case r.form.offered:
		return proto.ProtoRndvAM
	case p == proto.ProtoEagerShort && len(r.am.header) > 0, p.EagerZcopy() && !as.takeTail(r, p):
		p = tables.Table(proto.DataGeneric, r.mode).Lookup(size)
	}
	if p.EagerMulti() && r.data.Length == 0 { // only the header is long: one packet is enough
		return proto.ProtoEagerBcopy
	}
	return p
}

// takeTail allocates the memory of the tail for the zero-copy protocol p. It returns false if the
// tail does not fit, because the transport takes too few I/O vector entries or too small packets.
func (as *amState) takeTail(r *Request, p proto.Protocol) bool {
	packet := &r.form.only
	if p.EagerMulti() {
		packet = &r.form.first
	}
	n := as.tailSize(r, &packet.tail)
	if n == 0 {
		return true
	}
	if r.ep.cfg.maxIOV < 2 || packet.size+n >= r.ep.cfg.maxZcopy {
		return false
	}
	r.am.tail = r.w.buffers.Get(n)[:n]
	return true
}

// tailHandles registers the memory of the tail for a lane whose transport needs local memory
// handles, and reports whether the lane can send the tail. The data must have been registered
// before.
func (as *amState) tailHandles(r *Request, lane uint8) bool {
	if !r.form.active || len(r.am.tail) == 0 || !r.ep.cfg.needMemh || int(lane) >= len(r.ep.lanes) {
		return true
	}
	md := r.w.mds[r.ep.lanes[lane].iface.md]
	return md.Attr().Flags&uct.MDFlagNeedMemh == 0 || r.w.rights.memory(r).register(md, r.am.tail, uct.AccessLocalRead)
}
