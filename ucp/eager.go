package ucp

import (
	"math/rand/v2"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// The eager protocols: the message goes at once, in one packet or several.

// eagerFamily is how messages travel that are not offered first, whatever they are
// for, and how those in fragments are put together again (assembly.go).
type eagerFamily struct{ noFamily }

func (eagerFamily) about() familyInfo { return familyInfo{name: "eager"} }

func (eagerFamily) protocols() []protocolEntry {
	return []protocolEntry{
		{proto.ProtoEagerShort, eagerShort{}},
		{proto.ProtoEagerBcopy, eagerBcopy{}},
		{proto.ProtoEagerZcopy, eagerZcopy{}},
		{proto.ProtoEagerMultiBcopy, eagerMultiBcopy{}},
		{proto.ProtoEagerMultiZcopy, eagerMultiZcopy{}},
	}
}

// eagerState is what a worker keeps for them.
type eagerState struct {
	nextID     proto.MessageID // of messages in fragments
	assemblies map[assemblyKey]*assembly
	most       int          // assemblies that there were
	free       []*assembly  // idle objects
	orphans    assemblyList // incomplete messages of connections that are over
	timer      *event.Timer // for them
	untimed    bool         // it could not be set: progress looks after them
	senders    *event.Timer // for messages of nobody knows whom (senders.go)
	watching   bool         // it is set
}

func (eagerFamily) start(w *Worker) {
	w.eager.assemblies = make(map[assemblyKey]*assembly)
	w.eager.nextID = proto.MessageID(rand.Uint64())
	w.unnamed.fragments.added = w.watchSenders
}

// stop ends the receives of messages that are not complete.
func (eagerFamily) stop(w *Worker) error {
	w.cancelAssemblies()
	w.eager.free = nil
	return nil
}

// sourceGone looks after the messages whose rest may come another way.
func (eagerFamily) sourceGone(s *source) { s.w.orphan(&s.fragments) }

// evict gives up the messages that no receive has, and whose last fragment came
// over a connection.
func (eagerFamily) evict(s *source, reason error) {
	for a := s.fragments.head; a != nil; {
		next := a.next
		if a.req == nil {
			s.w.giveUp(a, reason)
		}
		a = next
	}
	if s.held == 0 {
		return
	}
	// Parts that it brought of messages whose last part has come from elsewhere.
	for _, a := range s.w.eager.assemblies {
		if a.req == nil && slices.ContainsFunc(a.pieces, func(p piece) bool { return p.from == s }) {
			s.w.giveUp(a, reason)
		}
	}
}

// eager is what they have in common.
type eager struct{ basics }

// completed is told that all bytes of the message have left.
func (eager) completed(r *Request, err error) { sent(r, err) }

// sent is told that all bytes of an eager message have left.
func sent(r *Request, err error) {
	if err != nil || !r.form.acked {
		r.finish(err)
		return
	}
	if err := r.ep.gone(); err != nil { // inside the call that delivered it
		r.finish(err)
		return
	}
	r.state |= stateSent
	if r.state&stateReply != 0 {
		r.finish(r.err)
		return
	}
	r.await()
}

// acknowledged is told that the receiver has acknowledged a message.
func (r *Request) acknowledged(err error) {
	r.w.requestIDs.Remove(r.localID)
	r.localID = 0
	r.state |= stateReply
	r.err = err
	if r.state&stateSent != 0 {
		r.finish(err)
	}
}

// eagerShort sends a short message that could not go at once.
type eagerShort struct{ eager }

func (eagerShort) about() protocolInfo { return protocolInfo{name: "eager short", kind: kindEager} }

func (eagerShort) progress(r *Request) error {
	err := r.ep.ue.AMShort(uct.AMID(r.form.only.id), r.form.word(r), r.data.buf, 0, &r.comp)
	return singleSent(r, err, &r.w.stats.EagerShort)
}

// eagerBcopy sends a message in one copied packet.
type eagerBcopy struct{ eager }

func (eagerBcopy) about() protocolInfo { return protocolInfo{name: "eager copy-in", kind: kindEager} }

func (eagerBcopy) progress(r *Request) error {
	_, err := r.ep.ue.AMBcopy(uct.AMID(r.form.only.id), r.hooks(), 0, &r.comp)
	if (err == nil || err == ucs.InProgress) && r.frag < r.data.length {
		r.comp.Fail(r.packedNothing(r.frag)) // what there was is on its way
	}
	return singleSent(r, err, &r.w.stats.EagerBcopy)
}

func (eagerBcopy) pack(r *Request, dst []byte) int { return packEager(r, &r.form.only, dst) }

// eagerZcopy sends a message in one packet from the user's memory.
type eagerZcopy struct{ eager }

func (eagerZcopy) about() protocolInfo { return protocolInfo{name: "eager zero-copy", kind: kindEager} }

func (eagerZcopy) progress(r *Request) error {
	n, _ := r.data.gather(r.iovec(), 0, r.data.length)
	n = r.gatherTail(n, &r.form.only.tail)
	r.addHandles(n, r.ep.amLane())
	err := r.ep.ue.AMZcopy(uct.AMID(r.form.only.id), r.hooks(), r.iov[:n], 0, &r.comp)
	return singleSent(r, err, &r.w.stats.EagerZcopy)
}

func (eagerZcopy) pack(r *Request, dst []byte) int { return r.form.only.put(r, dst) }

// singleSent turns the result of the one transport call of a protocol into the
// result of its progress.
func singleSent(r *Request, err error, counter *uint64) error {
	if err != nil && err != ucs.InProgress {
		return err
	}
	r.countSent(counter)
	if err == nil {
		sent(r, r.comp.Err)
	}
	return nil
}

// packEager writes header and payload of the packet at the request's offset.
func packEager(r *Request, packet *packetForm, dst []byte) int {
	n := packet.put(r, dst)
	if !r.form.active {
		return n + r.packFragment(dst, n, r.data.length-r.offset, r.offset)
	}
	end := min(len(dst), r.ep.cfg.maxBcopy) - r.tailSize(&packet.tail)
	n += r.packFragment(dst[:end], n, r.data.length-r.offset, r.offset)
	return n + r.putTail(&packet.tail, dst[n:])
}
