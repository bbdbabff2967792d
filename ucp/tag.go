package ucp

import (
	"github.com/ucx-go/ucx/proto"
)

// tagFamily is tagged messages: sends that carry a label, and receives that ask for
// labels.
type tagFamily struct{ noFamily }

func (tagFamily) about() familyInfo { return familyInfo{name: "tag", features: FeatureTag} }

func (tagFamily) handlers(w *Worker) []handler {
	return []handler{
		{proto.IDEagerOnly, w.onEagerOnly()},
		{proto.IDEagerFirst, w.onEagerFirst},
		{proto.IDEagerMiddle, w.onEagerMiddle},
		{proto.IDEagerSyncOnly, w.onEagerSyncOnly},
		{proto.IDEagerSyncFirst, w.onEagerSyncFirst},
		{proto.IDEagerSyncAck, w.onEagerSyncAck},
	}
}

// What belongs to the calls.
var (
	callTagSend = callRule{"a tagged send", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory}
	callTagRecv = callRule{"a tagged receive", accessFlags, paramBuffer | paramOnTagRecv | paramTagInfo | paramMemoryType}
)

// tagState is what a worker keeps for tagged messages.
type tagState struct {
	tagMatcher
	on       bool          // they may be used
	taken    messageList   // messages in the hands of the user
	detached messageList   // messages that are not whole and whose receives were canceled
	free     []*TagMessage // idle objects
}

func (tagFamily) start(w *Worker) { w.tag.on, w.tag.spread = true, newTagSpread() }
func (tagFamily) halt(w *Worker)  { w.tag.on = false }

// stop ends the posted receives and gives up the messages nobody has received.
func (tagFamily) stop(w *Worker) error {
	w.cancelReceives()
	w.dropMessages()
	w.tag.free = nil
	return nil
}

// evict gives up the messages that came over a connection.
func (tagFamily) evict(s *source, _ error) {
	w := s.w
	w.tag.list()
	for d := s.messages.head; d != nil; d = s.messages.head {
		w.discardMessage(d)
	}
}

// count derives the number of sends, and of receives that were posted.
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
	return proto.EagerFirst{Tag: proto.Tag(r.tag), TotalLen: r.data.length, MsgID: r.msgID}
}

func offerTag(r *Request) (proto.RndvOp, uint64) { return proto.RndvTag, uint64(r.tag) }

// configure makes the decision tables.
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
	c.short = maxShort(c.tag.plain)
}

// explain returns the tables for contiguous memory.
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
