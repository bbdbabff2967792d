package ucp

import (
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// assembly puts a multi-fragment message together. Fragments come in any order,
// even before the first one, which alone carries tag and length. What arrives
// before the message is matched is kept in pieces: memory follows what has
// arrived, never what a header claims.
type assembly struct {
	id      proto.MessageID
	req     *Request    // the receive, once matched
	message *TagMessage // the unexpected message, until matched
	total   int         // -1 until the first fragment is here
	got     int
	ranges  rangeset.Set
	pieces  []piece
	discard bool    // the receive is over: the rest is only counted
	err     error   // the rest will not come
	payer   *source // for the assembly itself

	// While fragments are missing, in a list: of the source that brought the last
	// one, or of the orphans, until the given time.
	list       *assemblyList
	prev, next *assembly
	until      time.Duration // on the worker's clock
}

// piece is a kept fragment.
type piece struct {
	off  int
	buf  []byte
	from *source // which pays for it
}

// assemblyList is a FIFO of assemblies.
type assemblyList struct{ head, tail *assembly }

// moveTo puts a at the end of l, or in no list if that is nil.
func (a *assembly) moveTo(l *assemblyList) {
	if old := a.list; old != nil {
		if a.prev == nil {
			old.head = a.next
		} else {
			a.prev.next = a.next
		}
		if a.next == nil {
			old.tail = a.prev
		} else {
			a.next.prev = a.prev
		}
	}
	a.list, a.prev, a.next = l, nil, nil
	if l == nil {
		return
	}
	a.prev = l.tail
	if l.tail == nil {
		l.head = a
	} else {
		l.tail.next = a
	}
	l.tail = a
}

// assemblySize is what a message under assembly is charged with: each costs a peer
// one small packet.
const assemblySize = 160

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
		w.sendSyncAck(h.EpID, h.ReqID)
	}
	return err
}

// firstFragment matches a message. It returns the unexpected message if there
// is no receive for it, and the handler's result.
func (w *Worker) firstFragment(from *source, h *proto.EagerFirst, payload []byte, desc *uct.AMDesc) (*TagMessage, error) {
	a := w.assemblies[h.MsgID]
	if a != nil && (a.total >= 0 || !a.setTotal(h.TotalLen)) {
		return nil, w.malformed(ucs.ErrIO)
	}
	if a == nil && len(payload) == h.TotalLen { // a message in one fragment
		if r := w.tm.matchExpected(h.Tag); r != nil {
			r.deliver(h.Tag, payload)
			return nil, nil
		}
		return w.keepMessage(from, h.Tag, payload, desc)
	}
	created := a == nil
	if created {
		var err error
		if a, err = w.newAssembly(from, h.MsgID, h.TotalLen); err != nil {
			return nil, err
		}
	}
	if r := w.tm.matchExpected(h.Tag); r != nil {
		r.info = TagRecvInfo{SenderTag: h.Tag, Length: h.TotalLen}
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
	d := w.newMessage(from, h.Tag, messageMulti, h.TotalLen)
	d.assembly, a.message = a, d
	w.tm.addUnexpected(d)
	return d, a.add(from, 0, payload)
}

// onEagerMiddle receives a later fragment.
func (w *Worker) onEagerMiddle(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParseEagerMiddle(data)
	if err != nil {
		return w.malformed(err)
	}
	from := w.sourceOf(src)
	a := w.assemblies[h.MsgID]
	created := a == nil
	if created {
		if a, err = w.newAssembly(from, h.MsgID, -1); err != nil {
			return err
		}
	}
	err = a.add(from, h.Offset, payload)
	if err != nil && created {
		w.forget(a)
	}
	return err
}

func (w *Worker) newAssembly(from *source, id proto.MessageID, total int) (*assembly, error) {
	if err := w.charge(from, assemblySize); err != nil {
		return nil, err
	}
	var a *assembly
	if n := len(w.freeAssemblies); n > 0 {
		a = w.freeAssemblies[n-1]
		w.freeAssemblies = w.freeAssemblies[:n-1]
	} else {
		a = new(assembly)
	}
	a.id, a.total, a.payer = id, total, from
	w.kept += assemblySize
	from.held += assemblySize
	w.assemblies[id] = a
	a.moveTo(&from.fragments)
	return a, nil
}

// Bounds of the idle assemblies of a worker, and of the lists they keep.
const (
	maxFreeAssemblies = 64
	maxFreePieces     = 1024
)

// forget takes a message that is complete, or never will be, out of those that
// wait for fragments.
func (w *Worker) forget(a *assembly) {
	a.moveTo(nil)
	if a.payer != nil {
		a.payer.held -= assemblySize
		w.kept -= assemblySize
		a.payer = nil
	}
	if w.assemblies[a.id] == a { // or a later message has the id by now
		delete(w.assemblies, a.id)
	}
}

// putAssembly takes back an assembly that nobody refers to any more.
func (w *Worker) putAssembly(a *assembly) {
	if len(w.freeAssemblies) == maxFreeAssemblies || cap(a.pieces) > maxFreePieces {
		return
	}
	*a = assembly{pieces: a.pieces[:0]}
	w.freeAssemblies = append(w.freeAssemblies, a)
}

// setTotal is told the length by a first fragment that came late.
func (a *assembly) setTotal(total int) bool {
	for _, p := range a.pieces {
		if p.off+len(p.buf) > total {
			return false
		}
	}
	a.total = total
	return true
}

// add takes a fragment. It may be the last, so a must not be used after it. The
// error is the handler's result.
func (a *assembly) add(from *source, off int, data []byte) error {
	w := from.w
	if a.total >= 0 && off+len(data) > a.total || !a.ranges.Add(off, len(data)) {
		return w.malformed(ucs.ErrIO)
	}
	switch {
	case a.discard || len(data) == 0:
	case a.req != nil:
		a.unpack(off, data)
	default:
		if err := w.charge(from, len(data)); err != nil {
			return err
		}
		if a.discard || a.err != nil { // to make room
			return nil
		}
		b := w.buffers.Get(len(data))
		a.pieces = append(a.pieces, piece{off: off, buf: b[:copyBytes(b[:cap(b)], data)], from: from})
		from.held += cap(b)
	}
	a.got += len(data)
	if a.got != a.total && a.list != &from.fragments {
		a.moveTo(&from.fragments)
	}
	a.check(w)
	return nil
}

// attach gives the message to a receive, with what has arrived so far. A check or
// another fragment must follow.
func (a *assembly) attach(r *Request) {
	a.req, a.message = r, nil
	if a.err != nil {
		a.end(a.err)
	} else if a.total > r.data.length {
		a.end(ucs.ErrMessageTruncated)
	}
	for i := 0; i < len(a.pieces) && !a.discard; i++ {
		a.unpack(a.pieces[i].off, a.pieces[i].buf)
	}
	a.dropPieces()
}

// dropPieces gives back the memory of what was kept.
func (a *assembly) dropPieces() {
	for _, p := range a.pieces {
		p.from.held -= cap(p.buf)
		p.from.w.buffers.Put(p.buf)
	}
	clear(a.pieces)
	a.pieces = a.pieces[:0]
}

// unpack stores a fragment in the user's memory.
func (a *assembly) unpack(off int, data []byte) {
	if err := a.req.data.unpackAt(data, off); err != nil {
		a.end(err)
	}
}

// end finishes the receive; later fragments are discarded.
func (a *assembly) end(err error) {
	r := a.req
	a.req, a.discard = nil, true
	r.finish(err)
}

// check finishes a message that is complete and belongs to somebody. The assembly
// is over then.
func (a *assembly) check(w *Worker) {
	if a.got != a.total && a.err == nil {
		return
	}
	w.forget(a)
	if a.req == nil && !a.discard {
		return // its unexpected message keeps it alive
	}
	if a.req != nil {
		a.end(nil)
	}
	w.putAssembly(a)
}
