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

// assembly reassembles a message in fragments. Fragments arrive in any order, even before the
// first one. Only the first fragment says what the message is and how long it is. What arrives
// before there is a receive is kept in pieces, so memory use follows what has arrived, never the
// length that a header claims.
type assembly struct {
	key     assemblyKey
	req     *Request      // the matched receive, nil if there is none yet
	owner   assemblyOwner // holds the message until there is a receive; nil if nothing does
	total   int           // length of the message in bytes, -1 until the first fragment has arrived
	got     int
	ranges  rangeset.Set
	pieces  []piece
	place   []byte  // the owner's memory for the whole message, once enough has arrived (AMMessage.settle)
	owned   bool    // the application holds the message: the pieces are not charged
	discard bool    // the message is given up: later fragments are only counted
	err     error   // not nil: the missing fragments will not arrive
	charged *source // the source charged with the assembly itself

	// The list that holds the assembly while fragments are missing: that of the source that
	// brought the last fragment, or that of the orphans, until the given time.
	list       *assemblyList
	prev, next *assembly
	until      time.Duration // time on the worker's clock when an orphan is given up
}

// assemblyKey identifies a message in fragments. Message ids of tagged messages are given by the
// sending worker, which starts at a random number; those of active messages are unique per
// endpoint.
type assemblyKey struct {
	ep proto.EndpointID // the receiver's id, 0 for tagged messages
	id proto.MessageID
}

// taggedKey returns the key of a tagged message in fragments. The message id alone identifies it,
// because the sending worker gives that id.
func taggedKey(id proto.MessageID) assemblyKey { return assemblyKey{ep: 0, id: id} }

// assemblyOwner holds a message that is not complete and that no receive has matched.
type assemblyOwner interface {
	// lose is called when the missing fragments will not arrive, whole when all have arrived.
	lose(err error)
	whole()
}

// piece is a kept fragment.
type piece struct {
	off  int
	buf  []byte
	from *source // charged with cap(buf)
}

// assemblyList is a FIFO of assemblies.
type assemblyList struct {
	head, tail *assembly
	added      func() // if not nil, called for each assembly that is added
}

// moveTo moves a to the end of l, or out of its list if l is nil.
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

// assemblySize is the charge for a message under assembly, in bytes. Each costs a peer only one
// small packet.
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

// forget removes a message that is complete, or never will be, from the messages that wait for
// fragments, and takes the assembly off the charge of its source.
func (es *eagerState) forget(a *assembly) {
	a.moveTo(nil)
	if payer := a.charged; payer != nil {
		a.charged = nil
		payer.give(assemblySize)
	}
	if es.assemblies[a.key] == a { // otherwise a later message has the same key
		delete(es.assemblies, a.key)
		if es.most >= shrinkFrom && len(es.assemblies) == 0 { // maps do not shrink
			es.assemblies, es.most = make(map[assemblyKey]*assembly), 0
		}
	}
}

// putAssembly returns an assembly that nothing refers to any more to the free list.
func (es *eagerState) putAssembly(a *assembly) {
	if len(es.free) == maxFreeAssemblies || cap(a.pieces) > maxFreePieces {
		return
	}
	a.ranges.Reset()
	*a = assembly{pieces: a.pieces[:0], ranges: a.ranges}
	es.free = append(es.free, a)
}

// setTotal sets the length that a first fragment says when it has arrived after others. It
// reports false if a kept fragment goes beyond that length.
func (a *assembly) setTotal(total int) bool {
	for _, p := range a.pieces {
		if p.off+len(p.buf) > total {
			return false
		}
	}
	a.total = total
	return true
}

// add takes a fragment. The fragment may be the last one, so the caller must not use a
// afterwards. The error is the result of the transport's handler.
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
		if a.discard || a.err != nil { // given up by charge to make room
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

// attach gives the message to a receive, with what has arrived so far. The caller must then call
// check or add a fragment.
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

// dropPieces frees the memory of the kept fragments.
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

// own takes the pieces of a complete message off the charge of the sources that brought them.
func (a *assembly) own() {
	if a.owned {
		return
	}
	a.owned = true
	for _, p := range a.pieces {
		p.from.give(cap(p.buf))
	}
}

// unpack stores a fragment in the receive's buffer.
func (a *assembly) unpack(off int, data []byte) {
	if err := a.req.data.unpackAt(data, off); err != nil && a.req != nil { // the datatype may have canceled the receive
		a.end(err)
	}
}

// end finishes the receive with err; later fragments are discarded.
func (a *assembly) end(err error) {
	r := a.req
	a.req, a.discard = nil, true
	r.finish(err)
}

// check finishes a message that is complete, or whose rest will not arrive: it completes the
// receive, or tells the owner. The caller must not use the assembly afterwards, except that an
// owner keeps it.
func (a *assembly) check(w *Worker) {
	if a.got != a.total && a.err == nil {
		return
	}
	w.eager.forget(a)
	if a.req == nil && !a.discard {
		a.owner.whole() // the owner keeps a
		return
	}
	if a.req != nil {
		a.end(nil)
	}
	w.eager.putAssembly(a)
}

// giveUp ends a message without a receive that will never be complete.
func (es *eagerState) giveUp(a *assembly, err error) {
	if a.owner == nil { // its first fragment has not arrived, or its receive is over
		es.discard(a)
		return
	}
	a.owner.lose(err)
}

// discard drops what has arrived of a message that no receive has matched. The assembly does not
// go to the free list, because a handler up the stack may be using it.
func (es *eagerState) discard(a *assembly) {
	es.forget(a)
	a.dropPieces()
	a.owner, a.place, a.discard = nil, nil, true
}

// cancelAssemblies gives up all incomplete messages and cancels their receives.
func (es *eagerState) cancelAssemblies() {
	for _, a := range es.assemblies {
		es.forget(a)
		a.dropPieces()
		if a.req != nil {
			a.end(ucs.ErrCanceled)
		}
	}
}

// Messages in shared memory do not say which process sent them. If a process dies in the middle
// of a message in fragments, no connection ends. Which of the incomplete messages came from that
// process cannot be told as long as another possible sender exists, because the other sender may
// be slow or stopped. So the library acts only on what is certain. While there are such messages,
// the transports are asked whether a sender may be left, every UCX_KEEPALIVE_INTERVAL and as soon
// as one of them learns that a process has exited. When no sender is left, the messages end like
// those of a connection that has ended. Until then Worker.Cancel ends their receives.

// watchSenders starts the timer of lookForSenders, if there is an incomplete message of an
// unknown sender.
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

// lookForSenders gives up the incomplete messages of unknown senders if no sender is left.
func (es *eagerState) lookForSenders() {
	w := es.w
	es.watching = false
	if w.accounts.unnamed.fragments.head != nil && !es.hasSenders() {
		es.orphanMessages(&w.accounts.unnamed.fragments)
	}
	es.watchSenders()
}

// senderExited is called by a transport when a process has exited that may have sent messages. If
// no sender is left, the incomplete messages of unknown senders become orphans. If moreover no
// transport tells its senders apart, no other connection could bring the rest, and the messages
// end at once.
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

// allUnnamed reports whether no transport for messages, other than that of the worker to itself,
// tells its senders apart.
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

// hasSenders reports whether a transport that does not tell its senders apart may have senders
// left.
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

// orphanTime is how long the rest of a message may take to arrive after the end of the connection
// that brought its last fragment. The fragments of one message may travel over several
// connections, which do not end at the same time.
const orphanTime = time.Second

// orphanMessages makes orphans of l, the incomplete messages of a connection that has ended: they
// are given up after orphanTime.
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

// watchOrphans makes sure that the oldest orphan is looked at in time: by a timer, or in every
// round of progress if no descriptor is left for a timer. Each such round also tries again to set
// the timer.
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

// expireOrphans ends the orphans whose time is over, and returns their number.
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

// abandonMessage ends a message that will never be complete. The error includes why the
// connection that began the message has failed, if that is known.
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
