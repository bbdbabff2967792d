package ucp

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// assembly puts a multi-fragment message together. Fragments come in any order,
// even before the first one, which alone says what the message is and how long.
// What arrives before there is a receive is kept in pieces: memory follows what
// has arrived, never what a header claims.
type assembly struct {
	key     assemblyKey
	req     *Request      // the receive, once there is one
	owner   assemblyOwner // whoever keeps the message until then, nil for nobody
	total   int           // -1 until the first fragment is here
	got     int
	ranges  rangeset.Set
	pieces  []piece
	place   []byte  // the owner's memory for all of it, when there is enough to deserve it
	owned   bool    // the user has the message: nobody is charged with the pieces
	discard bool    // the receive is over: the rest is only counted
	err     error   // the rest will not come
	charged *source // for the assembly itself

	// While fragments are missing, in a list: of the source that brought the last
	// one, or of the orphans, until the given time.
	list       *assemblyList
	prev, next *assembly
	until      time.Duration // on the worker's clock
}

// assemblyKey tells messages in fragments apart. The numbers of tagged messages are
// the sending worker's, at random from the start; those of active messages count per
// endpoint.
type assemblyKey struct {
	ep proto.EndpointID // ours, 0 for tagged messages
	id proto.MessageID
}

// taggedKey names a tagged message in fragments: its number says it all, as it is
// the sending worker's.
func taggedKey(id proto.MessageID) assemblyKey { return assemblyKey{ep: 0, id: id} }

// assemblyOwner keeps a message that is not complete and that no receive has.
type assemblyOwner interface {
	// lose is told that the rest will not come, whole that all of it is here.
	lose(err error)
	whole()
}

// piece is a kept fragment.
type piece struct {
	off  int
	buf  []byte
	from *source // which pays for it
}

// assemblyList is a FIFO of assemblies.
type assemblyList struct {
	head, tail *assembly
	added      func() // if not nil, called with each that comes
}

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
	if l.added != nil {
		l.added()
	}
}

// assemblySize is what a message under assembly is charged with: each costs a peer
// one small packet.
const assemblySize = 200

func (es *eagerState) newAssembly(from *source, key assemblyKey, total int) (*assembly, error) {
	w := es.w
	if err := w.accounts.charge(from, assemblySize); err != nil {
		return nil, err
	}
	var a *assembly
	if n := len(es.free); n > 0 {
		a = es.free[n-1]
		es.free = es.free[:n-1]
	} else {
		a = new(assembly)
	}
	a.key, a.total, a.charged = key, total, from
	from.take(assemblySize)
	es.assemblies[key] = a
	es.most = max(es.most, len(es.assemblies))
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
func (es *eagerState) forget(a *assembly) {
	a.moveTo(nil)
	if payer := a.charged; payer != nil {
		a.charged = nil
		payer.give(assemblySize)
	}
	if es.assemblies[a.key] == a { // or a later message has the id by now
		delete(es.assemblies, a.key)
		if es.most >= shrinkFrom && len(es.assemblies) == 0 { // maps do not shrink
			es.assemblies, es.most = make(map[assemblyKey]*assembly), 0
		}
	}
}

// putAssembly takes back an assembly that nobody refers to any more.
func (es *eagerState) putAssembly(a *assembly) {
	if len(es.free) == maxFreeAssemblies || cap(a.pieces) > maxFreePieces {
		return
	}
	a.ranges.Reset()
	*a = assembly{pieces: a.pieces[:0], ranges: a.ranges}
	es.free = append(es.free, a)
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
		return w.logMalformed(ucs.ErrIO)
	}
	switch {
	case a.discard || len(data) == 0:
	case a.req != nil:
		a.unpack(off, data)
	case a.place != nil:
		cpu.Copy(a.place[off:], data)
	default:
		if err := w.accounts.charge(from, len(data)); err != nil {
			return err
		}
		if a.discard || a.err != nil { // to make room
			return nil
		}
		b := w.buffers.Get(len(data))
		a.pieces = append(a.pieces, piece{off: off, buf: b[:cpu.Copy(b[:cap(b)], data)], from: from})
		from.take(cap(b))
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
	a.req, a.owner = r, nil
	r.msgID = a.key.id
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
		p.from.w.buffers.Put(p.buf)
		if !a.owned {
			p.from.give(cap(p.buf))
		}
	}
	clear(a.pieces)
	a.pieces = a.pieces[:0]
}

// own takes the pieces of a complete message off the charge of who brought them.
func (a *assembly) own() {
	if a.owned {
		return
	}
	a.owned = true
	for _, p := range a.pieces {
		p.from.give(cap(p.buf))
	}
}

// unpack stores a fragment in the user's memory.
func (a *assembly) unpack(off int, data []byte) {
	if err := a.req.data.unpackAt(data, off); err != nil && a.req != nil { // the datatype may cancel
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
	w.eager.forget(a)
	if a.req == nil && !a.discard {
		a.owner.whole() // and keeps it
		return
	}
	if a.req != nil {
		a.end(nil)
	}
	w.eager.putAssembly(a)
}

// giveUp ends a message without a receive that will never be complete.
func (es *eagerState) giveUp(a *assembly, err error) {
	if a.owner == nil { // nobody has seen it, or its receive is over
		es.discard(a)
		return
	}
	a.owner.lose(err)
}

// discard gives up what has come of a message that no receive has. The assembly
// is not used again: a handler up the stack may be at it.
func (es *eagerState) discard(a *assembly) {
	es.forget(a)
	a.dropPieces()
	a.owner, a.place, a.discard = nil, nil, true
}

// cancelAssemblies gives up all messages that are not complete.
func (es *eagerState) cancelAssemblies() {
	for _, a := range es.assemblies {
		es.forget(a)
		a.dropPieces()
		if a.req != nil {
			a.end(ucs.ErrCanceled)
		}
	}
}

// Messages in shared memory do not say who sent them. When a process dies in the
// middle of one in fragments, no connection ends, and which of the incomplete
// messages was its own cannot be told as long as another process is there that may
// have sent them: that one may be slow, or stopped. So what happens by itself is
// only what is certain. As long as there are such messages, the transports are
// asked every UCX_KEEPALIVE_INTERVAL whether a sender may be left, and as soon as one of
// them knows that a process has exited. When none is left, the messages end like those of
// a connection that is over. Until then Worker.Cancel ends their receives.

// watchSenders asks after an interval, if there is a message that needs it.
func (es *eagerState) watchSenders() {
	w := es.w
	if es.watching || w.accounts.unnamed.fragments.head == nil || w.closed {
		return
	}
	interval := time.Duration(w.ctx.settings.KeepaliveInterval)
	if interval <= 0 {
		return
	}
	var err error
	if es.senders == nil {
		es.senders, err = w.uctw.Timers().After(interval, es.lookForSenders)
	} else {
		err = es.senders.Reset(interval)
	}
	if es.watching = err == nil; err != nil { // the next fragment tries again
		w.ctx.log.Debug("no timer for messages of unknown senders", zap.String("worker", w.name), zap.Error(err))
	}
}

// lookForSenders gives up the incomplete messages of unknown senders if there are
// no senders any more.
func (es *eagerState) lookForSenders() {
	w := es.w
	es.watching = false
	if w.accounts.unnamed.fragments.head != nil && !es.hasSenders() {
		es.orphanMessages(&w.accounts.unnamed.fragments)
	}
	es.watchSenders()
}

// senderExited is told by a transport that a process has exited that may have sent
// messages. Where no other transport could bring the rest of those that are not complete,
// they end at once.
func (es *eagerState) senderExited() {
	w := es.w
	l := &w.accounts.unnamed.fragments
	if l.head == nil || w.closed || es.hasSenders() {
		return
	}
	if !es.allUnnamed() {
		es.orphanMessages(l)
		return
	}
	for a := l.head; a != nil; a = l.head {
		a.moveTo(nil)
		es.abandonMessage(a)
	}
}

// allUnnamed reports whether no transport tells its senders apart.
func (es *eagerState) allUnnamed() bool {
	w := es.w
	for _, i := range w.ifaces {
		_, unnamed := i.uct.(uct.SenderFinder)
		if !unnamed && i.attr.Resource.Type != uct.DeviceSelf && i.attr.Flags&messageFlags != 0 {
			return false
		}
	}
	return true
}

// hasSenders reports whether a transport that does not name its senders may have
// some left.
func (es *eagerState) hasSenders() bool {
	w := es.w
	for _, i := range w.ifaces {
		f, ok := i.uct.(uct.SenderFinder)
		if !ok {
			continue
		}
		some, err := f.FindSenders()
		if err != nil {
			w.ctx.log.Debug("cannot tell whether there are senders", zap.String("worker", w.name),
				zap.String("transport", i.attr.Resource.Transport), zap.Error(err))
		}
		if some || err != nil {
			return true
		}
	}
	return false
}

// orphanTime is how long the rest of a message may take after the end of the
// connection that brought its last fragment. The fragments of one message may
// travel over several connections, which do not end at once.
const orphanTime = time.Second

// orphanMessages is called with the incomplete messages of a connection that is over.
func (es *eagerState) orphanMessages(l *assemblyList) {
	w := es.w
	if l.head == nil || w.closed {
		return
	}
	until := w.uctw.Now() + orphanTime
	for a := l.head; a != nil; a = l.head {
		a.until = until
		a.moveTo(&es.orphans)
	}
	es.watchOrphans()
}

// watchOrphans sees to it that the oldest orphan is looked at in time: by a
// timer, or where there is no descriptor for one in every round of progress,
// which also tries again to set it.
func (es *eagerState) watchOrphans() {
	w := es.w
	a := es.orphans.head
	if a == nil {
		es.untimed = false
		return
	}
	wait := a.until - w.uctw.Now()
	var err error
	if es.timer == nil {
		es.timer, err = w.uctw.Timers().After(wait, func() { es.expireOrphans() })
	} else {
		err = es.timer.Reset(wait)
	}
	if err != nil && !es.untimed {
		w.ctx.log.WarnOnce("", "no timer for incomplete messages", zap.String("worker", w.name), zap.Error(err))
	}
	es.untimed = err != nil
}

// expireOrphans ends the messages whose rest has not come, and returns their
// number.
func (es *eagerState) expireOrphans() int {
	w := es.w
	n := 0
	now := w.uctw.Now()
	for a := es.orphans.head; a != nil && a.until <= now; a = es.orphans.head {
		es.abandonMessage(a)
		n++
	}
	es.watchOrphans()
	return n
}

var errTruncated = statuserr.Errorf(ucs.ErrConnectionReset, "ucp: the connection broke in the middle of a message")

// abandonMessage ends a message that will never be complete. Why is known of the connection that
// began it.
func (es *eagerState) abandonMessage(a *assembly) {
	w := es.w
	w.stats.Abandoned++
	err := errTruncated
	if a.charged.cause != nil {
		err = fmt.Errorf("%w: %w", errTruncated, a.charged.cause)
	}
	if a.req == nil {
		es.giveUp(a, err)
		return
	}
	es.forget(a)
	a.end(err)
	es.putAssembly(a)
}
