package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// streamFamily is streams: each endpoint has one in either direction, of bytes without
// boundaries. All packets take the lane of messages and each is the peer's id of the
// endpoint and bytes, so their order there is the order of the bytes: nothing of the
// same endpoint may get between the packets of one send (stream_send.go).
//
// What comes goes straight to the oldest posted receive, or is kept (stream_queue.go).
// It is never thrown away to make room, as a stream with a gap is worth nothing: who
// sends more than is read has to wait (stream_stop.go).
type streamFamily struct{ noFamily }

func (streamFamily) about() familyInfo {
	return familyInfo{name: "stream", features: FeatureStream}
}

func (streamFamily) handlers(w *Worker) []handler {
	return []handler{{proto.IDStreamData, w.onStreamData}}
}

// streamTables are an endpoint's decision tables for streams.
type streamTables struct {
	tables *proto.MessageTables
	short  int // most bytes that go inline
}

func (streamFamily) start(w *Worker) {
	w.stream.on = true
	w.stream.most = w.ctx.settings.StreamUnread.Int(defaultUnread)
}

func (streamFamily) halt(w *Worker) { w.stream.on = false }

// stop takes back what the application has not released: some of it is in memory of a
// transport.
func (streamFamily) stop(w *Worker) error {
	for c := w.stream.lent; c != nil; c = w.stream.lent {
		w.takeBack(c)
	}
	w.stream.free = nil
	return nil
}

// configure makes the decision tables.
func (streamFamily) configure(c *epConfig, in *proto.ProtoInput) {
	t := proto.NewMessageTables(in, proto.MessageForm{
		Op: "stream message by ucp_stream_send*", Only: proto.StreamDataSize, First: proto.StreamDataSize, Short: true, Whole: true, OneLane: true,
	})
	c.stream.tables = t
	c.stream.short = max(min(t.Table(proto.DataContig, 0).MaxShort(), t.Table(proto.DataContig, proto.SendMulti).MaxShort()), 0)
}

// explain returns the table for contiguous memory.
func (streamFamily) explain(_ *Endpoint, c *epConfig) []proto.TableInfo {
	return []proto.TableInfo{c.stream.tables.Explain(proto.DataContig, 0)}
}

// claimed has the application told of what has come before it had the endpoint.
func (streamFamily) claimed(ep *Endpoint) {
	if s := ep.stream; s != nil {
		s.relist()
	}
}

// closing throws away what nobody will read, so that the peer may go on, and ends the posted
// receives: the close may wait for the peer, and what comes meanwhile is nobody's.
func (streamFamily) closing(ep *Endpoint) {
	if s := ep.stream; s != nil {
		s.discard()
		s.recvs.end(ucs.ErrCanceled)
		s.relist()
	}
}

// closed does so at once where the end was not announced.
func (f streamFamily) closed(ep *Endpoint) { f.closing(ep) }

// purge ends the posted receives. What has come before can still be read, if the
// endpoint has failed.
func (streamFamily) purge(ep *Endpoint, err error) {
	if s := ep.stream; s != nil {
		s.recvs.end(err)
		s.relist()
	}
}

// sourceGone forgets that the connection is not read.
func (streamFamily) sourceGone(from *source) {
	list := &from.w.stream.stopped
	for k := len(*list) - 1; k >= 0; k-- {
		if s := (*list)[k]; s.stopped == from {
			s.forgetStop()
		}
	}
}

// evict gives up the streams that a connection has filled.
func (streamFamily) evict(from *source, reason error) {
	for s := from.streams; s != nil; s = from.streams {
		s.discard()
		s.ep.fail(reason)
	}
}
