package ucp

import "github.com/ucx-go/ucx/proto"

// AMSendFlags modify the sending of an active message (enum ucp_send_am_flags).
type AMSendFlags uint32

// Flags of active messages, with C's bit numbers.
const (
	// AMSendReply gives the receiver's handler an endpoint to reply on.
	AMSendReply AMSendFlags = 1 << 0

	// AMSendEager sends the data at once, whatever its length. It takes precedence over
	// AMSendRndv.
	AMSendEager AMSendFlags = 1 << 1

	// AMSendRndv sends the data by rendezvous, whatever its length: the receiver is offered
	// the data and fetches it.
	AMSendRndv AMSendFlags = 1 << 2

	// AMSendCopyHeader copies the header, so that it may be reused when the call returns.
	AMSendCopyHeader AMSendFlags = 1 << 3

	amSendFlags = AMSendReply | AMSendEager | AMSendRndv | AMSendCopyHeader
)

// amForms are the forms of active messages: without and with an endpoint to answer on;
// as their length says, eager, and offered.
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

// plainAM is the form of most.
var plainAM = &amForms[0][0]

// amFormOf is the form for flags of a caller.
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

// newAMForm makes a form. All fragments name the receiver's end of the connection, as do
// single messages that can be answered.
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

// amHeader is the header of the message. Of the flags only the one travels that the
// receiver looks at.
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
	eagerOnly    [2]*proto.MessageTables // the same where nothing is offered, made when first used
}

func (t *amTables) eager(k int, of *proto.MessageTables) *proto.MessageTables {
	if t.eagerOnly[k] == nil {
		t.eagerOnly[k] = of.WithoutRendezvous()
	}
	return t.eagerOnly[k]
}
