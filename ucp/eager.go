package ucp

import (
	"math"
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
	senders    *event.Timer // for messages of nobody knows whom (assembly.go)
	watching   bool         // it is set
	w          *Worker
}

func (eagerFamily) start(w *Worker) {
	w.eager.assemblies = make(map[assemblyKey]*assembly)
	w.eager.nextID = proto.MessageID(rand.Uint64())
	w.accounts.unnamed.fragments.added = w.eager.watchSenders
}

// stop ends the receives of messages that are not complete.
func (eagerFamily) stop(w *Worker) error {
	w.eager.cancelAssemblies()
	w.eager.free = nil
	return nil
}

// sourceGone looks after the messages whose rest may come another way.
func (eagerFamily) sourceGone(s *source) { s.w.eager.orphanMessages(&s.fragments) }

// evict gives up the messages that no receive has, and whose last fragment came
// over a connection.
func (eagerFamily) evict(s *source, reason error) {
	for a := s.fragments.head; a != nil; {
		next := a.next
		if a.req == nil {
			s.w.eager.giveUp(a, reason)
		}
		a = next
	}
	if s.held == 0 {
		return
	}
	// Parts that it brought of messages whose last part has come from elsewhere.
	for _, a := range s.w.eager.assemblies {
		if a.req == nil && slices.ContainsFunc(a.pieces, func(p piece) bool { return p.from == s }) {
			s.w.eager.giveUp(a, reason)
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
func (es *eagerState) acknowledged(r *Request, err error) {
	r.w.pool.requestIDs.Remove(r.localID)
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
	n, _ := r.data.gather(r.w.rights.iovec(r), 0, r.data.length)
	n = r.w.am.gatherTail(r, n, &r.form.only.tail)
	r.w.rights.addHandles(r, n, r.ep.amLane())
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
	end := min(len(dst), r.ep.cfg.maxBcopy) - r.w.am.tailSize(r, &packet.tail)
	n += r.packFragment(dst[:end], n, r.data.length-r.offset, r.offset)
	return n + r.w.am.putTail(r, &packet.tail, dst[n:])
}

// The protocols of eager messages in fragments.

// eagerMultiBcopy sends the fragments of a message, copied.
type eagerMultiBcopy struct{ eager }

func (eagerMultiBcopy) about() protocolInfo {
	return protocolInfo{name: "eager multi copy-in", kind: kindEager}
}

func (eagerMultiBcopy) progress(r *Request) error {
	for r.offset < r.data.length {
		e := r.w.eager.rail(r)
		r.frag = 0
		r.comp.Count++
		_, err := r.ep.lane(e.lane).AMBcopy(uct.AMID(r.form.fragment(r).id), r.hooks(), 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
		r.step++
	}
	r.countSent(&r.w.stats.EagerMulti)
	r.comp.Done(nil)
	return nil
}

func (eagerMultiBcopy) pack(r *Request, dst []byte) int {
	return packEager(r, r.form.fragment(r), dst[:min(len(dst), r.w.eager.rail(r).bcopy)])
}

// eagerMultiZcopy sends the fragments of a message from the user's memory.
type eagerMultiZcopy struct{ eager }

func (eagerMultiZcopy) about() protocolInfo {
	return protocolInfo{name: "eager multi zero-copy", kind: kindEager}
}

func (eagerMultiZcopy) progress(r *Request) error {
	for r.offset < r.data.length {
		e := r.w.eager.rail(r)
		if e.zcopy == 0 {
			r.step++
			continue
		}
		packet := r.form.fragment(r)
		var n int
		list, limit := r.w.rights.iovec(r), e.zcopy-packet.size
		if r.form.active {
			list, limit = list[:len(list)-1], limit-r.w.am.tailSize(r, &packet.tail)
		}
		n, r.frag = r.data.gather(list, r.offset, limit)
		n = r.w.am.gatherTail(r, n, &packet.tail)
		r.w.rights.addHandles(r, n, e.lane)
		r.comp.Count++
		err := r.ep.lane(e.lane).AMZcopy(uct.AMID(packet.id), r.hooks(), r.iov[:n], 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
		r.step++
	}
	r.countSent(&r.w.stats.EagerMulti)
	r.comp.Done(nil)
	return nil
}

func (eagerMultiZcopy) pack(r *Request, dst []byte) int { return r.form.fragment(r).put(r, dst) }

// The fragments of an eager message may go over several lanes in turn (UCX_MAX_EAGER_RAILS):
// the first, which is matched in order, over the lane of messages, the others over it and
// those that were chosen for the purpose. A receiver puts fragments together in any order,
// but for those of streams, which have nothing but their order on one lane.

// eagerRail is a lane that takes fragments.
type eagerRail struct {
	lane         uint8
	bcopy, zcopy int // longest fragment, headers included; 0: it takes none without a copy
}

// minRail is the least that a lane has to take at once to be of use.
const minRail = 512

// eagerRails are the lanes for fragments, that of messages first, with the others in the
// input of the cost model. Faster ones get longer fragments (ucp_proto_multi_init in
// src/ucp/proto/proto_multi.c).
func (es *eagerState) eagerRails(p *lanePlan, in *proto.ProtoInput) []eagerRail {
	w := es.w
	rails := []eagerRail{{p.chosen.AM, in.AM.MaxBcopy, in.AM.MaxZcopy}}
	if in.AM.SegSize > 0 {
		rails[0].bcopy, rails[0].zcopy = min(rails[0].bcopy, in.AM.SegSize), min(rails[0].zcopy, in.AM.SegSize)
	}
	lanes := p.chosen.AMBW
	if w.ctx.settings.SingleNet {
		lanes = w.selection.oneNetDevice(p.chosen, append([]uint8{p.chosen.AM}, lanes...))
	}
	speeds := []float64{speed(&in.AM)}
	best := speeds[0]
	for _, k := range lanes {
		if k == p.chosen.AM || len(rails) >= int(w.ctx.settings.EagerRails) {
			continue
		}
		l := &p.chosen.Lanes[k]
		i := w.ifaces[l.Local]
		perf := w.selection.lanePerf(i, l.SegSize)
		r := eagerRail{k, min(perf.MaxBcopy, rails[0].bcopy), min(perf.MaxZcopy, rails[0].zcopy)}
		if l.SegSize > 0 {
			r.bcopy, r.zcopy = min(r.bcopy, l.SegSize), min(r.zcopy, l.SegSize)
		}
		if r.zcopy < minRail || i.attr.AM.MaxIOV < 2 {
			r.zcopy = 0
		}
		if b := speed(&perf); r.bcopy >= minRail && b*w.ctx.settings.LaneRatio >= best {
			best = math.Max(best, b)
			rails, speeds = append(rails, r), append(speeds, b)
			in.Rails = append(in.Rails, perf)
		}
	}
	scaleRails(rails, speeds, func(r *eagerRail) *int { return &r.bcopy })
	scaleRails(rails, speeds, func(r *eagerRail) *int { return &r.zcopy })
	return rails
}

// speed is the bandwidth of a lane in numbers that can be divided.
func speed(l *proto.LanePerf) float64 { return math.Min(math.Max(l.Bandwidth, 1), 1e15) }

// scaleRails shortens the fragments of slow lanes, so that all take as long.
func scaleRails(rails []eagerRail, speeds []float64, limit func(*eagerRail) *int) {
	longest := 0.0
	for i := range rails {
		if n := *limit(&rails[i]); n > 0 {
			longest = math.Max(longest, speeds[i]/float64(n))
		}
	}
	for i := range rails {
		if n := limit(&rails[i]); *n > 0 && len(rails) > 1 {
			*n = min(*n, max(int(speeds[i]/longest), minRail))
		}
	}
}

// rail is the lane of the next fragment. The first one has a header that may take all of
// what the lane does.
func (es *eagerState) rail(r *Request) eagerRail {
	c := r.ep.cfg
	if int(r.step) >= len(c.eager) || r.form.oneLane {
		r.step = 0
	}
	e := c.eager[r.step]
	if r.offset == 0 {
		e.bcopy, e.zcopy = c.maxBcopy, c.maxZcopy
	}
	r.lane = e.lane
	return e
}

// eagerHandles sees to it that there are handles of a message for the lanes that a protocol
// takes without copies.
func (es *eagerState) eagerHandles(r *Request, p proto.Protocol) bool {
	c := r.ep.cfg
	if p != proto.ProtoEagerMultiZcopy {
		return r.w.rights.laneHandles(r, c.lanes.am, uct.AccessLocalRead) && r.w.am.tailHandles(r, c.lanes.am)
	}
	rails := c.eager
	if r.form.oneLane {
		rails = rails[:1]
	}
	for i := range rails {
		if e := &rails[i]; (i == 0 || e.zcopy > 0) && !(r.w.rights.laneHandles(r, e.lane, uct.AccessLocalRead) && r.w.am.tailHandles(r, e.lane)) {
			return false
		}
	}
	return true
}
