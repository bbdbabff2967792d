package ucp

import (
	"github.com/ucx-go/ucx/proto"
)

// amFamily is active messages: each names a function of the receiver's that it is given
// to. They travel as tagged messages do, in any of the ways of message.go; what their
// packets look like is in am_form.go and am_tail.go. What comes whole, in fragments
// (am_parts.go) or as an offer goes to a handler (am_handler.go) or into a queue
// (am_queue.go).
type amFamily struct{ noFamily }

func (amFamily) about() familyInfo { return familyInfo{name: "am", features: FeatureAM} }

// handlers are asked for once for each interface that is opened.
func (amFamily) handlers(w *Worker) []handler {
	w.am.maxHeader = w.maxAMHeader()
	return []handler{
		{proto.IDAMSingle, w.onAMSingle()},
		{proto.IDAMSingleReply, w.onAMSingleReply},
		{proto.IDAMFirst, w.onAMFirst},
		{proto.IDAMMiddle, w.onAMMiddle},
	}
}

func (amFamily) start(w *Worker) { w.am.on = true }
func (amFamily) halt(w *Worker)  { w.am.on = false }

// stop gives up the messages in queues, and takes those that are in memory of transports
// from who has them.
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

// evict gives up the messages in queues that came over a connection.
func (amFamily) evict(s *source, _ error) {
	for m := s.actives; m != nil; m = s.actives {
		m.leaveQueue()
		m.drop()
	}
	for _, q := range s.w.am.queues {
		for _, a := range q.asides {
			a.giveUpFetch(s)
			q.makeReady(a) // it may be empty now
		}
	}
}

// configure makes the decision tables.
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

// explain returns the tables for contiguous memory.
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
