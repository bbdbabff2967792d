package ucp

import (
	"math"
	"slices"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// The eager protocols: the data of a message is sent at once, in one packet or several.

// eagerFamily is the family of the eager protocols, which send messages of all other families
// without a rendezvous. It also reassembles messages in fragments (assembly.go).
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

// eagerState is the state of a worker for eager messages.
type eagerState struct {
	nextID     proto.MessageID // id of the message in fragments that was sent last
	assemblies map[assemblyKey]*assembly
	most       int                 // largest number of assemblies since the map was made
	free       []*assembly         // idle assemblies
	orphans    list.List[assembly] // incomplete messages of connections that have ended
	timer      *event.Timer        // fires when the time of the oldest orphan is over
	untimed    bool                // the field timer could not be set: progress checks the orphans
	senders    *event.Timer        // timer for the senders of incomplete messages (assembly.go)
	checked    []*source           // sources that have had an incomplete message since the timer last expired
	checkAt    int                 // length of checked at which ended sources are dropped from it
	watching   bool                // the timer senders is running
	w          *Worker

	refused     map[assemblyKey]refusedMessage // messages that are dropped, of which fragments are still to come
	refusedKeys []assemblyKey                  // their keys, in the order in which they were refused
}

func (eagerFamily) start(w *Worker) {
	w.eager.assemblies = make(map[assemblyKey]*assembly)
	w.eager.nextID = proto.MessageID(platform.Uint64())
}

// stop cancels the receives of incomplete messages.
func (eagerFamily) stop(w *Worker) error {
	w.eager.cancelAssemblies()
	w.eager.free = nil
	return nil
}

// sourceGone is called when a connection has ended. Its incomplete messages become orphans, because
// their missing fragments may arrive over another connection.
func (eagerFamily) sourceGone(s *source) { s.w.eager.orphanMessages(&s.fragments) }

// evict gives up the incomplete messages without a receive whose last fragment came over the
// connection s, or for which s is charged with a fragment.
func (eagerFamily) evict(s *source, reason error) {
	for n := s.fragments.Front(); n != nil; {
		a, next := n.Value, n.Next()
		if a.req == nil {
			s.w.eager.giveUp(a, reason)
		}
		n = next
	}
	if s.Held() == 0 {
		return
	}
	// Messages whose last fragment came over another connection, but of which s has brought
	// fragments.
	for _, a := range platform.Ordered(s.w.eager.assemblies, (*assembly).compare) {
		if a.req == nil && slices.ContainsFunc(a.pieces, func(p piece) bool { return p.from == s }) {
			s.w.eager.giveUp(a, reason)
		}
	}
}

// eager is the common part of the eager protocols.
type eager struct{ basics }

// completed is called when all bytes of the message were sent, or with the error of the transport.
func (eager) completed(r *Request, err error) { sent(r, err) }

// sent is called when all bytes of an eager message were sent, or with the error of the transport.
// If the receiver acknowledges the message, the request ends only when the acknowledgement has
// arrived.
func sent(r *Request, err error) {
	if err != nil || !r.form.acked {
		r.finish(err)
		return
	}
	if err := r.ep.gone(); err != nil { // the endpoint ended inside the call that delivered the message
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

// acknowledged is called when the receiver has acknowledged a message; err is the status in the
// acknowledgement.
func (es *eagerState) acknowledged(r *Request, err error) {
	r.w.pool.requestIDs.Remove(r.localID)
	r.localID = 0
	r.state |= stateReply
	r.err = err
	if r.state&stateSent != 0 {
		r.finish(err)
	}
}

// eagerShort sends a short message that could not be sent inside the call.
type eagerShort struct{ eager }

func (eagerShort) about() protocolInfo { return protocolInfo{name: "eager short", kind: kindEager} }

func (eagerShort) progress(r *Request) error {
	err := r.ep.ue.AMShort(uct.AMID(r.form.only.id), r.form.word(r), r.data.Buf, 0, &r.comp)
	return singleSent(r, err, &r.w.stats.EagerShort)
}

// eagerBcopy sends a message in one packet, copied into the transport's buffer.
type eagerBcopy struct{ eager }

func (eagerBcopy) about() protocolInfo { return protocolInfo{name: "eager copy-in", kind: kindEager} }

func (eagerBcopy) progress(r *Request) error {
	_, err := r.ep.ue.AMBcopy(uct.AMID(r.form.only.id), r.hooks(), 0, &r.comp)
	if (err == nil || err == ucs.InProgress) && r.frag < r.data.Length {
		r.comp.Fail(r.packedNothing(r.frag)) // the packet is sent with the bytes that the datatype has packed
	}
	return singleSent(r, err, &r.w.stats.EagerBcopy)
}

func (eagerBcopy) pack(r *Request, dst []byte) int { return packEager(r, &r.form.only, dst) }

// eagerZcopy sends a message in one packet from the application's memory, without a copy.
type eagerZcopy struct{ eager }

func (eagerZcopy) about() protocolInfo { return protocolInfo{name: "eager zero-copy", kind: kindEager} }

func (eagerZcopy) progress(r *Request) error {
	n, _ := r.data.Gather(r.w.rights.iovec(r), 0, r.data.Length)
	n = r.w.am.gatherTail(r, n, &r.form.only.tail)
	r.w.rights.addHandles(r, n, r.ep.amLane())
	err := r.ep.ue.AMZcopy(uct.AMID(r.form.only.id), r.hooks(), r.iov[:n], 0, &r.comp)
	return singleSent(r, err, &r.w.stats.EagerZcopy)
}

func (eagerZcopy) pack(r *Request, dst []byte) int { return r.form.only.put(r, dst) }

// singleSent converts the result of the single transport call of a protocol into the result of
// its progress.
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

// packEager writes header, payload and tail of the packet at the request's offset, and returns
// its length.
func packEager(r *Request, packet *packetForm, dst []byte) int {
	n := packet.put(r, dst)
	if !r.form.active {
		return n + r.packFragment(dst, n, r.data.Length-r.offset, r.offset)
	}
	end := min(len(dst), r.ep.cfg.maxBcopy) - r.w.am.tailSize(r, &packet.tail)
	n += r.packFragment(dst[:end], n, r.data.Length-r.offset, r.offset)
	return n + r.w.am.putTail(r, &packet.tail, dst[n:])
}

// The eager protocols of messages in fragments.

// eagerMulti is the common part of these protocols.
type eagerMulti struct{ eager }

// release ends the counting of a message over several lanes.
func (eagerMulti) release(r *Request) { r.unsplit() }

// split counts a message over several lanes, which a flush must not pass on one of them.
func (eagerMulti) split(r *Request) {
	if !r.form.oneLane {
		r.splitRails(len(r.ep.cfg.eager))
	}
}

// eagerMultiBcopy sends the fragments of a message, copied into the transport's buffers.
type eagerMultiBcopy struct{ eagerMulti }

func (eagerMultiBcopy) about() protocolInfo {
	return protocolInfo{name: "eager multi copy-in", kind: kindEager}
}

func (p eagerMultiBcopy) progress(r *Request) error {
	p.split(r)
	for r.offset < r.data.Length {
		e := r.w.eager.rail(r)
		r.frag = 0
		r.comp.Count++
		_, err := r.ep.lane(e.lane).AMBcopy(uct.AMID(r.form.fragment(r).id), r.hooks(), 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
		r.step++
	}
	r.unsplit()
	r.countSent(&r.w.stats.EagerMulti)
	r.comp.Done(nil)
	return nil
}

func (eagerMultiBcopy) pack(r *Request, dst []byte) int {
	return packEager(r, r.form.fragment(r), dst[:min(len(dst), r.w.eager.rail(r).bcopy)])
}

// eagerMultiZcopy sends the fragments of a message from the application's memory.
type eagerMultiZcopy struct{ eagerMulti }

func (eagerMultiZcopy) about() protocolInfo {
	return protocolInfo{name: "eager multi zero-copy", kind: kindEager}
}

func (p eagerMultiZcopy) progress(r *Request) error {
	p.split(r)
	for r.offset < r.data.Length {
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
		n, r.frag = r.data.Gather(list, r.offset, limit)
		n = r.w.am.gatherTail(r, n, &packet.tail)
		r.w.rights.addHandles(r, n, e.lane)
		r.comp.Count++
		err := r.ep.lane(e.lane).AMZcopy(uct.AMID(packet.id), r.hooks(), r.iov[:n], 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
		r.step++
	}
	r.unsplit()
	r.countSent(&r.w.stats.EagerMulti)
	r.comp.Done(nil)
	return nil
}

func (eagerMultiZcopy) pack(r *Request, dst []byte) int { return r.form.fragment(r).put(r, dst) }

// The fragments of an eager message may go over several lanes in turn (UCX_MAX_EAGER_RAILS). The
// first fragment, which is matched in order, goes over the AM lane; the others go over the AM lane
// and the AM bandwidth lanes. A receiver reassembles fragments in any order. Streams are the
// exception: their packets carry only bytes and no offsets, so their order must be that of one
// lane, and they use the AM lane only.

// eagerRail is a lane that carries fragments.
type eagerRail struct {
	lane         uint8
	bcopy, zcopy int // longest fragment in bytes, headers included; zcopy 0: the lane takes no fragments without a copy
}

// minRail is the shortest fragment limit, in bytes, of a lane that is used for fragments.
const minRail = 512

// eagerRails returns the lanes for fragments, the AM lane first, and adds the others to in, the
// input of the cost model. Faster lanes get longer fragments (ucp_proto_multi_init in
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

// speed returns the bandwidth of a lane in bytes per second, limited to the range from 1 to 1e15 so
// that it can be a divisor.
func speed(l *proto.LanePerf) float64 { return math.Min(math.Max(l.Bandwidth, 1), 1e15) }

// scaleRails shortens the fragments of slow lanes, so that a fragment takes equally long on all
// lanes.
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

// rail returns the lane of the request's next fragment, with its limits. The header of the first
// fragment may be as long as the lane's packets, so the limits of the first fragment are not
// reduced.
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

// eagerHandles registers the memory of a message for the lanes that the zero-copy protocol p uses,
// where they need memory handles. It returns false if that fails and the message must use another
// protocol.
func (es *eagerState) eagerHandles(r *Request, p proto.Protocol) bool {
	c := r.ep.cfg
	if p != proto.ProtoEagerMultiZcopy {
		return r.w.rights.laneHandles(r, c.lanes.AM, uct.AccessLocalRead) && r.w.am.tailHandles(r, c.lanes.AM)
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
