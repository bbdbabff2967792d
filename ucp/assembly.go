package ucp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// assembly reassembles a message in fragments. Fragments arrive in any order, even before the
// first one. Only the first fragment says what the message is and how long it is. What arrives
// before there is a receive is kept in pieces, so memory use follows what has arrived, never the
// length that a header claims.
type assembly struct {
	key      assemblyKey
	req      *Request      // the matched receive, nil if there is none yet
	owner    assemblyOwner // holds the message until there is a receive; nil if nothing does
	total    int           // length of the message in bytes, -1 until the first fragment has arrived
	got      int
	ranges   rangeset.Set
	pieces   []piece
	wholeBuf []byte  // the owner's memory for the whole message, once enough has arrived (AMMessage.allocateWhole)
	owned    bool    // the application holds the message: the pieces are not charged
	discard  bool    // the message is given up: later fragments are only counted
	err      error   // not nil: the missing fragments will not arrive
	charged  *source // the source that is charged assemblySize

	// Position in the list that holds the assembly while fragments are missing: the list of the source
	// that brought the last fragment (source.fragments), or that of the orphans (eagerState.orphans).
	node  list.Node[assembly]
	until time.Duration // time on the worker's clock when an orphan is given up
}

// assemblyKey identifies a message in fragments. The sending worker numbers its tagged messages,
// starting at a random number; the ids of active messages are unique per endpoint.
type assemblyKey struct {
	ep proto.EndpointID // id of the receiver's endpoint, 0 for tagged messages
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
	from *source // the source that is charged cap(buf) bytes
}

// compare orders messages by their keys.
func (a *assembly) compare(b *assembly) int {
	return cmp.Or(cmp.Compare(a.key.ep, b.key.ep), cmp.Compare(a.key.id, b.key.id))
}

// leaveList takes a out of its list, if it is in one.
func (a *assembly) leaveList() {
	if a.node.Linked() {
		a.node.Remove()
	}
}

// assemblySize is the charge for a message that is being reassembled, in bytes. A peer can create
// one with a single small packet.
const assemblySize = 208

func (es *eagerState) newAssembly(from *source, key assemblyKey, total int) (*assembly, error) {
	if err := from.Charge(assemblySize); err != nil {
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
	a.node.Value = a
	from.AddBytes(assemblySize)
	es.assemblies[key] = a
	es.most = max(es.most, len(es.assemblies))
	es.keepWith(a, from)
	return a, nil
}

// keepWith moves an incomplete message to the list of the source that has brought its last fragment.
func (es *eagerState) keepWith(a *assembly, from *source) {
	a.leaveList()
	from.fragments.Push(&a.node)
	if from.uct != nil {
		if from.checked {
			return
		}
		if len(es.checked) >= es.checkAt {
			es.dropChecked()
			es.checkAt = 2*len(es.checked) + minChecked
		}
		from.checked = true
		es.checked = append(es.checked, from)
	}
	if !es.watching {
		es.watchSenders()
	}
}

// minChecked is the number of sources of incomplete messages from which ended ones are dropped, although the timer
// has not expired: peers can connect and disconnect any number of times.
const minChecked = 64

// dropChecked drops the sources that have ended, or have no incomplete message any more, from checked.
func (es *eagerState) dropChecked() {
	es.checked = slices.DeleteFunc(es.checked, func(s *source) bool {
		s.checked = s.uct != nil && !s.fragments.Empty()
		return !s.checked
	})
}

// shrinkFrom is the number of incomplete messages at a time from which the map of assemblies is
// replaced by a new map once it is empty.
const shrinkFrom = 1024

// Limits of the idle assemblies of a worker, and of the capacity of the slice of pieces that each
// keeps.
const (
	maxFreeAssemblies = 64
	maxFreePieces     = 1024
)

// forget removes a message that is complete, or never will be, from the messages that wait for
// fragments, and discharges the source of the assembly.
func (es *eagerState) forget(a *assembly) {
	a.leaveList()
	if account := a.charged; account != nil {
		a.charged = nil
		account.SubBytes(assemblySize)
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

// setTotal sets the length of the message from a first fragment that arrived after other fragments.
// It returns false if a kept fragment goes beyond that length.
func (a *assembly) setTotal(total int) bool {
	for _, p := range a.pieces {
		if p.off+len(p.buf) > total {
			return false
		}
	}
	a.total = total
	return true
}

// add adds a received fragment. The fragment may complete the message, so the caller must not use
// the assembly afterwards. The error is the result of the transport's handler.
func (a *assembly) add(from *source, off int, data []byte) error {
	w := from.w
	if a.total >= 0 && off+len(data) > a.total || !a.ranges.Add(off, len(data)) {
		return w.logMalformed(ucs.ErrIO)
	}
	switch {
	case a.discard || len(data) == 0:
	case a.req != nil:
		a.unpack(off, data)
	case a.wholeBuf != nil:
		cpu.Copy(a.wholeBuf[off:], data)
	default:
		if err := from.Charge(len(data)); err != nil {
			return err
		}
		if a.discard || a.err != nil { // given up by Charge to make room
			return nil
		}
		b := w.buffers.Get(len(data))
		a.pieces = append(a.pieces, piece{off: off, buf: b[:cpu.Copy(b[:cap(b)], data)], from: from})
		from.AddBytes(cap(b))
	}
	a.got += len(data)
	if a.got != a.total && !a.node.In(&from.fragments) {
		w.eager.keepWith(a, from)
	}
	a.check(w)
	return nil
}

// attach assigns the message to the receive r, and stores what has arrived in the receive's buffer.
// The caller must then call check or add.
func (a *assembly) attach(r *Request) {
	a.req, a.owner = r, nil
	r.msgID = a.key.id
	if a.err != nil {
		a.end(a.err)
	} else if a.total > r.data.Length {
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
			p.from.SubBytes(cap(p.buf))
		}
	}
	clear(a.pieces)
	a.pieces = a.pieces[:0]
}

// own discharges the sources of the pieces of a complete message, because the application now owns
// the message.
func (a *assembly) own() {
	if a.owned {
		return
	}
	a.owned = true
	for _, p := range a.pieces {
		p.from.SubBytes(cap(p.buf))
	}
}

// unpack stores a fragment in the receive's buffer.
func (a *assembly) unpack(off int, data []byte) {
	if err := unpackData(a.req, data, off); err != nil && a.req != nil { // the datatype may have canceled the receive
		a.end(err)
	}
}

// end finishes the receive with err; later fragments are discarded.
func (a *assembly) end(err error) {
	r := a.req
	a.req, a.discard = nil, true
	r.finish(err)
}

// check finishes a message that is complete, or whose missing fragments will not arrive: it
// completes the receive, or calls the owner's method whole. Afterwards only the owner may use the
// assembly.
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

// giveUp ends, with err, a message without a receive that will never be complete.
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
	a.owner, a.wholeBuf, a.discard = nil, nil, true
}

// Over shared memory there is no connection to drop when a limit refuses a fragment. The whole message
// is dropped then: what has arrived of it, and what is still to come. A message of which only the refused
// fragment is missing would never be complete.

// refusedMessage counts the fragments of a message that is dropped.
type refusedMessage struct {
	got, total int // bytes; total is -1 until the first fragment has arrived
}

// maxRefused is the number of messages, of which fragments are still to come, that are remembered as
// refused.
const maxRefused = 1024

// refuse drops a message of which a limit has refused a fragment of n bytes. total is the length of the
// message, -1 if the fragment does not say it. refuse does nothing if err is no such refusal, or if the
// transport, which is then given err, drops the connection (src).
func (es *eagerState) refuse(src *uct.Source, key assemblyKey, total, n int, err error) {
	if src != nil || !errors.Is(err, ucs.ErrExceedsLimit) {
		return
	}
	m := refusedMessage{n, total}
	if a := es.assemblies[key]; a != nil && a.req == nil {
		m.got += a.got
		m.total = max(m.total, a.total)
		if d, ok := a.owner.(*TagMessage); ok && d.sync {
			es.w.tag.refuseSync(nil, d.epID, d.reqID, err)
		}
		es.w.stats.Abandoned++
		es.giveUp(a, err)
	}
	if m.got == m.total {
		return
	}
	if len(es.refusedKeys) == maxRefused {
		delete(es.refused, es.refusedKeys[0])
		es.refusedKeys = slices.Delete(es.refusedKeys, 0, 1)
	}
	if es.refused == nil {
		es.refused = make(map[assemblyKey]refusedMessage)
	}
	es.refused[key] = m
	es.refusedKeys = append(es.refusedKeys, key)
}

// receive receives a fragment of n bytes by one, unless it belongs to a message that is dropped, which
// it reports. If a limit refuses the fragment, its message is dropped. total is as for refuse.
func (es *eagerState) receive(src *uct.Source, key assemblyKey, total, n int, one func() error) (dropped bool, err error) {
	if es.isRefused(key, total, n) {
		return true, nil
	}
	if err = one(); err != nil {
		es.refuse(src, key, total, n, err)
	}
	return false, err
}

// isRefused reports whether a fragment of n bytes belongs to a message that is dropped. total is as for
// refuse.
func (es *eagerState) isRefused(key assemblyKey, total, n int) bool {
	if len(es.refused) == 0 {
		return false
	}
	m, ok := es.refused[key]
	if !ok {
		return false
	}
	m.got += n
	if m.total = max(m.total, total); m.got != m.total {
		es.refused[key] = m
		return true
	}
	delete(es.refused, key)
	es.refusedKeys = slices.DeleteFunc(es.refusedKeys, func(k assemblyKey) bool { return k == key })
	return true
}

// cancelAssemblies gives up all incomplete messages and cancels their receives.
func (es *eagerState) cancelAssemblies() {
	for _, a := range platform.Ordered(es.assemblies, (*assembly).compare) {
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
//
// A connection of datagrams ends only when the peer does not answer. If this side sends nothing, the
// transport is asked at the same interval to check the connections of incomplete messages.

// watchSenders starts the timer of lookForSenders, if there is an incomplete message.
func (es *eagerState) watchSenders() {
	w := es.w
	if es.watching || w.accounts.unnamed.fragments.Empty() && len(es.checked) == 0 || w.closed {
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
		w.ctx.log.Debug("cannot set the timer for the senders of incomplete messages", zap.String("worker", w.name), zap.Error(err))
	}
}

// lookForSenders gives up the incomplete messages of unknown senders if no sender is left, and checks
// the connections of the others.
func (es *eagerState) lookForSenders() {
	w := es.w
	es.watching = false
	es.dropChecked()
	for _, s := range es.checked {
		if s.uct != nil {
			s.uct.Check()
		}
	}
	if !w.accounts.unnamed.fragments.Empty() && !es.hasSenders() {
		es.orphanMessages(&w.accounts.unnamed.fragments)
	}
	es.watchSenders()
}

// senderExited is called by a transport when a process has exited that may have sent messages. If
// no sender is left, the incomplete messages of unknown senders become orphans. If also no
// transport tells its senders apart, no other connection can bring the missing fragments, and the
// messages end at once.
func (es *eagerState) senderExited() {
	w := es.w
	l := &w.accounts.unnamed.fragments
	if l.Empty() || w.closed || es.hasSenders() {
		return
	}
	if !es.allUnnamed() {
		es.orphanMessages(l)
		return
	}
	for !l.Empty() {
		es.abandonMessage(l.Pop())
	}
}

// allUnnamed reports whether no transport for messages, other than that of the worker to itself,
// tells its senders apart.
func (es *eagerState) allUnnamed() bool {
	w := es.w
	for _, i := range w.ifaces {
		if !i.attr.NoSources && i.attr.Resource.Type != uct.DeviceSelf && i.attr.Flags&messageFlags != 0 {
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
		f, ok := i.uct.(uct.ProcessIface)
		if !ok || !i.attr.NoSources {
			continue
		}
		some, err := f.FindSenders()
		if err != nil {
			w.ctx.log.Debug("cannot determine whether senders are left", zap.String("worker", w.name),
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
func (es *eagerState) orphanMessages(l *list.List[assembly]) {
	w := es.w
	if l.Empty() || w.closed {
		return
	}
	until := w.uctw.Now() + orphanTime
	for !l.Empty() {
		a := l.Pop()
		a.until = until
		es.orphans.Push(&a.node)
	}
	es.watchOrphans()
}

// watchOrphans makes sure that expireOrphans is called when the time of the oldest orphan is over:
// by a timer, or in every round of progress if no descriptor is left for a timer. Each such round
// also tries again to set the timer.
func (es *eagerState) watchOrphans() {
	w := es.w
	if es.orphans.Empty() {
		es.untimed = false
		return
	}
	wait := es.orphans.Front().Value.until - w.uctw.Now()
	var err error
	if es.timer == nil {
		es.timer, err = w.uctw.Timers().After(wait, func() { es.expireOrphans() })
	} else {
		err = es.timer.Reset(wait)
	}
	if err != nil && !es.untimed {
		w.ctx.log.WarnOnce("", "cannot set the timer for incomplete messages", zap.String("worker", w.name), zap.Error(err))
	}
	if es.untimed = err != nil; es.untimed {
		w.due.Store(true)
	}
}

// expireOrphans ends the orphans whose time is over, and returns their number.
func (es *eagerState) expireOrphans() int {
	w := es.w
	n := 0
	now := w.uctw.Now()
	for !es.orphans.Empty() && es.orphans.Front().Value.until <= now {
		es.abandonMessage(es.orphans.Front().Value)
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
