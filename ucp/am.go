package ucp

import (
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/bufpool"
)

// amFamily is the family of active messages. Each message names, by an id, a function of the
// receiver that is called with it. Active messages travel as tagged messages do, in any of the
// ways listed in message.go; am.go and am_send.go describe their packets. A message that arrives
// in one packet, in fragments (am_recv.go) or as an offer goes to a handler (am_recv.go) or into
// a queue (am_queue.go).
type amFamily struct{ noFamily }

func (amFamily) about() familyInfo { return familyInfo{name: "am", features: FeatureAM} }

// handlers is called once for each interface that is opened.
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

// stop drops the messages in queues, and the kept messages in memory of a transport, which takes
// that memory back.
func (amFamily) stop(w *Worker) error {
	for len(w.am.queues) > 0 {
		w.am.queues[0].close()
	}
	for m := w.am.borrowed.head; m != nil; m = w.am.borrowed.head {
		m.drop()
	}
	w.am.free, w.am.idle = nil, 0
	return nil
}

// evict drops the messages in queues that came over the connection s, and gives up the fetches of
// data that it has offered.
func (amFamily) evict(s *source, _ error) {
	for m := s.actives; m != nil; m = s.actives {
		m.leaveQueue()
		m.drop()
	}
	for _, q := range s.w.am.queues {
		for _, a := range q.asides {
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
	c.shortAM = maxShort(c.am.plain)
}

// explain returns the decision tables for contiguous memory, and for mapped memory if the peer
// may map memory of this process.
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

// amForms are the forms of active messages. The first index is 1 for messages that name an
// endpoint to reply on. The second index is 0 where the length decides between eager and
// rendezvous, 1 for always eager, 2 for always offered.
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

// newAMForm makes a form. All fragments carry the receiver's id of the endpoint, and so do single
// messages that can be replied to.
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

// amHeader is the header of the message. AMSendReply is the only flag in it, because the receiver
// looks at no other.
func amHeader(r *Request) proto.AMHeader {
	return proto.AMHeader{ID: r.am.id, Flags: uint16(r.am.flags & AMSendReply), HeaderLen: uint32(len(r.am.header))}
}

func putAMHeader(r *Request, dst []byte) int { return amHeader(r).Put(dst) }

func putAMReply(r *Request, dst []byte) int {
	return proto.AMReplyFooter{EpID: r.ep.remoteID}.Put(dst)
}

func putAMFirst(r *Request, dst []byte) int {
	return proto.AMFirstFooter{MsgID: r.msgID, EpID: r.ep.remoteID, TotalLen: r.data.length}.Put(dst)
}

func amMiddle(r *Request) proto.AMMiddle {
	return proto.AMMiddle{Offset: r.offset, MsgID: r.msgID, EpID: r.ep.remoteID}
}

func putAMMiddle(r *Request, dst []byte) int       { return amMiddle(r).PutHeader(dst) }
func putAMMiddleFooter(r *Request, dst []byte) int { return amMiddle(r).PutFooter(dst) }

// amTables are an endpoint's decision tables for active messages.
type amTables struct {
	plain, reply *proto.MessageTables
	eagerOnly    [2]*proto.MessageTables // plain and reply without rendezvous, made when first used
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
	on        bool
	maxHeader int
	table     [256]*[256]amEntry // indexed by the high byte of the id, then by the low byte

	free     *AMMessage // idle message objects, linked by next
	idle     int
	rested   uint8
	resting  [quarantine]*AMMessage // released most recently, not reused yet
	borrowed amList                 // kept messages whose data is in memory of a transport
	queues   []*AMQueue

	over   bool          // kept messages that came through shared memory exceed the limit
	warned bool          // a message without handler was logged
	warnAt time.Duration // earliest time of the next such log
	w      *Worker
}

// set sets the handler or queue for an id.
func (s *amState) set(id uint16, e amEntry) {
	t := s.table[id>>8]
	if t == nil {
		t = new([256]amEntry)
		s.table[id>>8] = t
	}
	t[id&0xFF] = e
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

// amRequest is the part of a request for the sending of an active message.
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
