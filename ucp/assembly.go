package ucp

import (
	"time"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
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
	payer   *source // for the assembly itself

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

func (w *Worker) newAssembly(from *source, key assemblyKey, total int) (*assembly, error) {
	if err := w.charge(from, assemblySize); err != nil {
		return nil, err
	}
	var a *assembly
	if n := len(w.eager.free); n > 0 {
		a = w.eager.free[n-1]
		w.eager.free = w.eager.free[:n-1]
	} else {
		a = new(assembly)
	}
	a.key, a.total, a.payer = key, total, from
	from.take(assemblySize)
	w.eager.assemblies[key] = a
	w.eager.most = max(w.eager.most, len(w.eager.assemblies))
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
	if payer := a.payer; payer != nil {
		a.payer = nil
		payer.give(assemblySize)
	}
	if w.eager.assemblies[a.key] == a { // or a later message has the id by now
		delete(w.eager.assemblies, a.key)
		if w.eager.most >= shrinkFrom && len(w.eager.assemblies) == 0 { // maps do not shrink
			w.eager.assemblies, w.eager.most = make(map[assemblyKey]*assembly), 0
		}
	}
}

// putAssembly takes back an assembly that nobody refers to any more.
func (w *Worker) putAssembly(a *assembly) {
	if len(w.eager.free) == maxFreeAssemblies || cap(a.pieces) > maxFreePieces {
		return
	}
	a.ranges.Reset()
	*a = assembly{pieces: a.pieces[:0], ranges: a.ranges}
	w.eager.free = append(w.eager.free, a)
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
	case a.place != nil:
		cpu.Copy(a.place[off:], data)
	default:
		if err := w.charge(from, len(data)); err != nil {
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
	w.forget(a)
	if a.req == nil && !a.discard {
		a.owner.whole() // and keeps it
		return
	}
	if a.req != nil {
		a.end(nil)
	}
	w.putAssembly(a)
}

// giveUp ends a message without a receive that will never be complete.
func (w *Worker) giveUp(a *assembly, err error) {
	if a.owner == nil { // nobody has seen it, or its receive is over
		w.discard(a)
		return
	}
	a.owner.lose(err)
}

// discard gives up what has come of a message that no receive has. The assembly
// is not used again: a handler up the stack may be at it.
func (w *Worker) discard(a *assembly) {
	w.forget(a)
	a.dropPieces()
	a.owner, a.place, a.discard = nil, nil, true
}

// cancelAssemblies gives up all messages that are not complete.
func (w *Worker) cancelAssemblies() {
	for _, a := range w.eager.assemblies {
		w.forget(a)
		a.dropPieces()
		if a.req != nil {
			a.end(ucs.ErrCanceled)
		}
	}
}
