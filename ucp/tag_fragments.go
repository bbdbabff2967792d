package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// onEagerFirst receives the first fragment of a message.
func (w *Worker) onEagerFirst(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	h, payload, err := proto.ParseEagerFirst(data)
	if err != nil {
		return w.malformed(err)
	}
	_, err = w.firstFragment(w.sourceOf(src), &h, payload, desc)
	return err
}

// onEagerSyncFirst receives the first fragment of a message whose sender waits
// for the match.
func (w *Worker) onEagerSyncFirst(src *uct.Source, data []byte, desc *uct.AMDesc) error {
	h, payload, err := proto.ParseEagerSyncFirst(data)
	if err != nil {
		return w.malformed(err)
	}
	d, err := w.firstFragment(w.sourceOf(src), &h.EagerFirst, payload, desc)
	if d != nil {
		d.sync, d.epID, d.reqID = true, h.EpID, h.ReqID
	} else if err == nil {
		w.sendSyncAck(w.sourceOf(src), h.EpID, h.ReqID)
	}
	return err
}

// firstFragment matches a message. It returns the unexpected message if there
// is no receive for it, and the handler's result.
func (w *Worker) firstFragment(from *source, h *proto.EagerFirst, payload []byte, desc *uct.AMDesc) (*TagMessage, error) {
	a := w.eager.assemblies[taggedKey(h.MsgID)]
	if a != nil && (a.total >= 0 || !a.setTotal(h.TotalLen)) {
		return nil, w.malformed(ucs.ErrIO)
	}
	if a == nil && len(payload) == h.TotalLen { // a message in one fragment
		if r := w.tag.matchExpected(Tag(h.Tag)); r != nil {
			r.deliver(Tag(h.Tag), payload)
			return nil, nil
		}
		return w.keepMessage(from, Tag(h.Tag), payload, desc)
	}
	created := a == nil
	if created {
		var err error
		if a, err = w.newAssembly(from, taggedKey(h.MsgID), h.TotalLen); err != nil {
			return nil, err
		}
	}
	if r := w.tag.matchExpected(Tag(h.Tag)); r != nil {
		r.info = TagRecvInfo{SenderTag: Tag(h.Tag), Length: h.TotalLen}
		a.attach(r)
		return nil, a.add(from, 0, payload)
	}
	if err := w.charge(from, messageSize+len(payload)); err != nil {
		if created { // a message without its beginning would never be complete
			w.forget(a)
			w.putAssembly(a)
		}
		return nil, err
	}
	if a.discard { // to make room
		return nil, w.malformed(ucs.ErrExceedsLimit)
	}
	w.stats.Unexpected++
	d := w.newMessage(from, Tag(h.Tag), messageMulti, h.TotalLen)
	d.assembly, a.owner = a, d
	w.tag.addUnexpected(d)
	return d, a.add(from, 0, payload)
}

// onEagerMiddle receives a later fragment.
func (w *Worker) onEagerMiddle(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParseEagerMiddle(data)
	if err != nil {
		return w.malformed(err)
	}
	from := w.sourceOf(src)
	a := w.eager.assemblies[taggedKey(h.MsgID)]
	created := a == nil
	if created {
		if a, err = w.newAssembly(from, taggedKey(h.MsgID), -1); err != nil {
			return err
		}
	}
	err = a.add(from, h.Offset, payload)
	if err != nil && created {
		w.forget(a)
	}
	return err
}
