package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rndvFamily contains the rendezvous protocols, for tagged and active messages whose data is
// offered before it is sent. The overviews of rndv_send.go and rndv_recv.go describe the exchange.
type rndvFamily struct{ noFamily }

func (rndvFamily) about() familyInfo {
	return familyInfo{name: "rndv", features: FeatureTag | FeatureAM}
}

func (rndvFamily) handlers(w *Worker) []handler {
	return []handler{
		{proto.IDRndvRTS, w.rndv.onRndvRTS},
		{proto.IDRndvRTR, w.rndv.onRndvRTR},
		{proto.IDRndvData, w.rndv.onRndvData},
		{proto.IDRndvATS, w.rndv.onRndvATS},
		{proto.IDRndvATP, w.rndv.onRndvATP},
	}
}

func (rndvFamily) protocols() []protocolEntry {
	return []protocolEntry{
		{proto.ProtoRndvAM, rndvOffer{}},
		{proto.ProtoRndvPut, rndvOffer{}},
		{proto.ProtoRndvGet, rndvOffer{}},
		{proto.ProtoRndvPtr, rndvOffer{}},
		{proto.ProtoDataBcopy, rndvBcopy{}},
		{proto.ProtoDataZcopy, rndvZcopy{}},
		{proto.ProtoDataPut, rndvPut{}},
	}
}

// configure makes the decision tables of rendezvous.
func (rndvFamily) configure(c *epConfig, in *proto.ProtoInput) { c.rndv = proto.NewRndvTables(in) }

// explain returns the tables for contiguous memory.
func (rndvFamily) explain(_ *Endpoint, c *epConfig) []proto.TableInfo {
	list := []proto.TableInfo{
		c.rndv.ExplainAsk(proto.DataContig, proto.OfferAddress),
		c.rndv.ExplainAnswer(proto.DataContig, true),
	}
	if len(c.maps) > 0 {
		list = append(list, c.rndv.ExplainAsk(proto.DataContig, proto.OfferKey))
	}
	return list
}

// closed unmaps the mapped memory that the endpoint used last.
func (rndvFamily) closed(ep *Endpoint) { ep.w.rndv.forgetMappedKeys(ep) }

// rndvState is a worker's state of rendezvous.
type rndvState struct {
	// offers holds the handler of offers for each kind of operation; nil where the context has
	// no family for that kind.
	offers [proto.NumRndvOps]offerHandler

	key      []byte       // packed key of the offer that is being received
	attached []*mappedKey // mapped memory of peers, most recently used first
	w        *Worker
}

// offerHandler receives an offer. key is the packed key in the offer, empty for none, and rest the
// bytes that follow it. Both are valid during the call. The error is that of a message handler.
type offerHandler func(src *uct.Source, h proto.RndvRTS, key, rest []byte) error

// start collects the offer handlers of the families.
func (rndvFamily) start(w *Worker) {
	for _, f := range families {
		if op, fn := f.offers(w); fn != nil && w.has(f) {
			w.rndv.offers[op] = fn
		}
	}
}

// rndvATS tells the sender of a rendezvous message that this side is done with it. rndvATP tells
// the receiver that data has been written, or will not come.
type (
	rndvATS struct{ answer }
	rndvATP struct{ answer }
)

func (rndvATS) about() protocolInfo { return protocolInfo{name: "rndv ats"} }
func (rndvATP) about() protocolInfo { return protocolInfo{name: "rndv atp"} }

func (rndvATS) progress(r *Request) error { return r.sendControl(proto.IDRndvATS, 0) }
func (rndvATP) progress(r *Request) error { return r.sendControl(proto.IDRndvATP, 0) }

func (rndvATS) pack(r *Request, dst []byte) int { return r.w.rndv.packAck(r, dst) }
func (rndvATP) pack(r *Request, dst []byte) int { return r.w.rndv.packAck(r, dst) }

func (rv *rndvState) packAck(r *Request, dst []byte) int {
	return proto.RndvAck{ReqID: proto.RequestID(r.peerID), Status: r.ackStatus, Size: r.ackSize, HasSize: true}.Put(dst)
}

// sendATS ends a rendezvous of size bytes that the peer has offered. Its data was read or is not
// wanted (status OK), or the rendezvous has failed with status.
func (rv *rndvState) sendATS(ep *Endpoint, req proto.RequestID, size int, status ucs.Status) {
	rv.sendAck(ep, rndvATS{}, answerATS, req, size, status)
}

// sendAbort tells the receiver of a rendezvous that the last size bytes will not come.
func (rv *rndvState) sendAbort(ep *Endpoint, req proto.RequestID, size int) {
	rv.sendAck(ep, rndvATP{}, answerATP, req, size, ucs.ErrCanceled)
}

func (rv *rndvState) sendAck(ep *Endpoint, p protocol, kind answerKind, req proto.RequestID, size int, status ucs.Status) {
	r := ep.control(p)
	r.peerID, r.ackSize, r.ackStatus = uint64(req), size, status
	ep.w.replies.answer(ep, r, kind, ep.w.replies.answerSource(ep))
}

// answerSource returns the source that is charged with an answer over the endpoint: the source of
// the offer being received, else the one that opened the endpoint, else the source for unnamed
// ones.
func (rs *replyState) answerSource(ep *Endpoint) *source {
	if s := ep.w.accounts.offerSource; s != nil {
		return s
	}
	if s := ep.w.accounts.openedBy(ep); s != nil {
		return s
	}
	return &ep.w.accounts.unnamed
}

// While its request lives, the memory of an offered message, or of one whose data was asked for, is
// open to the peer. It is opened with all domains that give access by address alone (guards), and
// with domains that need a key, which the offer (RTS) or the answer (RTR) contains
// (ucp_rkey_pack_memh in src/ucp/core/ucp_rkey.c). The peer chooses the lanes that it uses; the
// keys are for those that this worker would use.

// messageKeys describes the keys in messages to a peer.
type messageKeys struct {
	get, put []uint8 // own domains, ascending, whose keys are in an offer (get) or in an answer (put)
	size     int     // bytes of the longest packed key
}

// maxMessageKeys bounds the lanes that carry the data of one message.
const maxMessageKeys = 4

// keyed reports whether a domain can open memory for one message with a key.
func (rv *rndvState) keyed(md int) bool {
	w := rv.w
	const want = uct.MDFlagNeedRkey | uct.MDFlagRegister
	_, plain := w.mds[md].(uct.ValueKeys)
	return plain && w.mds[md].Attr().Flags&want == want
}

// messageKeys returns the keys that messages over the lanes of a configuration contain.
func (rv *rndvState) messageKeys(c *epConfig) (k messageKeys) {
	w := rv.w
	domains := func(lanes []memoryLane) (list []uint8, size int) {
		for i := range lanes {
			if l := &lanes[i]; l.keyed && !slices.Contains(list, l.md) {
				list = append(list, l.md)
				size += w.mds[l.md].Attr().RkeyPackedSize
			}
		}
		slices.Sort(list)
		return list, proto.RkeySize(len(list), size)
	}
	var get, put int
	k.get, get = domains(c.get)
	k.put, put = domains(c.put)
	k.size = max(get, put)
	return k
}

// exposeMemory opens buf, the request's memory, to the peer, with the guards and with the keyed
// domains that are given. It returns the address of buf, or 0 if the memory stays closed.
func (rv *rndvState) exposeMemory(r *Request, buf []byte, guards []guard, domains []uint8, access uct.Access) uint64 {
	m := r.w.rights.memory(r)
	addr := m.expose(buf, guards, access, r.ep)
	if addr == 0 {
		return 0
	}
	if len(domains) > 0 {
		r.w.rights.seekMemory(r, int(domains[0]))
	}
	for _, md := range domains {
		if !m.open(r.w.mds[md], md, buf, access) {
			m.conceal()
			return 0
		}
	}
	return addr
}

// open opens memory with a domain that needs a key. It uses the registration of the Memory that
// contains buf, if that grants the access, and otherwise registers buf.
func (m *requestMemory) open(md uct.MemoryDomain, index uint8, buf []byte, access uct.Access) bool {
	e := exposure{md: md, index: index, keyed: true}
	if m.given != nil && m.given.grants(int(index), access) {
		e.mem, e.borrowed = m.given.handles[index], true
	} else {
		var err error
		if e.mem, err = md.Register(buf, access); err != nil {
			return false
		}
	}
	m.exposed = append(m.exposed, e)
	return true
}

// grants reports whether the memory's registration with the domain of an index gives peers this
// access.
func (m *Memory) grants(index int, access uct.Access) bool {
	return m.handles[index] != nil && !m.limited && m.prot.access()&access == access
}

// appendKey appends the packed key of the exposed memory, which may name no domain.
func (m *requestMemory) appendKey(b []byte) []byte {
	start := len(b)
	b = proto.AppendRkeyHeader(b, ucs.MemoryHost.Wire())
	if m == nil {
		return b
	}
	for i := range m.exposed {
		e := &m.exposed[i]
		if !e.keyed {
			continue
		}
		b = proto.AppendRkeyPart(b, start, e.index)
		part := len(b)
		var err error
		if b, err = e.md.AppendKey(b, e.mem); err != nil || !proto.EndRkeyPart(b, part) {
			// A domain did not pack its own key: send a key that opens nothing.
			return proto.AppendRkeyHeader(b[:start], ucs.MemoryHost.Wire())
		}
	}
	return b
}

// peerKeys holds the key values from a message of the peer, by lane.
type peerKeys [maxMessageKeys]uint64

// read extracts the keys for lanes from a packed key, and reports whether it contains all that they
// need. The bytes are untrusted.
func (k *peerKeys) read(w *Worker, packed []byte, lanes []memoryLane) bool {
	key, _, err := proto.ParseRkey(packed)
	if err != nil {
		return false
	}
	if t, ok := ucs.MemoryTypeFromWire(key.MemType); !ok || t != ucs.MemoryHost {
		return false
	}
	for i := range lanes {
		if !lanes[i].keyed {
			continue
		}
		part, ok := key.Key(lanes[i].peerMD)
		if !ok {
			return false
		}
		v, err := w.mds[lanes[i].md].(uct.ValueKeys).RkeyValue(part)
		if err != nil {
			return false
		}
		k[i] = v
	}
	return true
}

// anyKeyed reports whether any of the lanes needs a key.
func anyKeyed(lanes []memoryLane) bool {
	return slices.ContainsFunc(lanes, func(l memoryLane) bool { return l.keyed })
}

// keyOf returns the key for lane i of lanes, nil where none is needed. The result is valid until
// the next call.
func (rv *rndvState) keyOf(r *Request, k *peerKeys, lanes []memoryLane, i int) *uct.Rkey {
	if !lanes[i].keyed {
		return nil
	}
	m := r.w.rights.memory(r)
	m.rkey.Value = k[i]
	return &m.rkey
}
