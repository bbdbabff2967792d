package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rndvFamily is the rendezvous: how messages travel that are offered first, whatever
// they are for. rndv_send.go and rndv_recv.go open with the picture.
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

// configure makes the decision tables.
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

// closed unmaps what is mapped of the peer's memory.
func (rndvFamily) closed(ep *Endpoint) { ep.w.rndv.forgetMappedKeys(ep) }

// rndvState is what a worker keeps for rendezvous.
type rndvState struct {
	// offers take the offers of messages, by what those are for; nil where the
	// context has no family for it.
	offers [proto.NumRndvOps]offerHandler

	key      []byte       // of the offer that is being received
	attached []*mappedKey // memory of peers, the latest used first
	w        *Worker
}

// offerHandler takes an offer. key is the packed key that came with it, empty for
// none, and rest what follows; both are valid during the call. The error is that of
// a message handler.
type offerHandler func(src *uct.Source, h proto.RndvRTS, key, rest []byte) error

// start asks the families for the receivers of their offers.
func (rndvFamily) start(w *Worker) {
	for _, f := range families {
		if op, fn := f.offers(w); fn != nil && w.has(f) {
			w.rndv.offers[op] = fn
		}
	}
}

// rndvATS tells the sender of a rendezvous message that we are done with it;
// rndvATP the receiver that the data is there or will not come.
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

// sendATS ends a rendezvous of the peer's with the data taken, not wanted, or, by
// status, not to be had.
func (rv *rndvState) sendATS(ep *Endpoint, req proto.RequestID, size int, status ucs.Status) {
	rv.sendAck(ep, rndvATS{}, answerATS, req, size, status)
}

// sendAbort ends a rendezvous of ours with size bytes missing.
func (rv *rndvState) sendAbort(ep *Endpoint, req proto.RequestID, size int) {
	rv.sendAck(ep, rndvATP{}, answerATP, req, size, ucs.ErrCanceled)
}

func (rv *rndvState) sendAck(ep *Endpoint, p protocol, kind answerKind, req proto.RequestID, size int, status ucs.Status) {
	r := ep.control(p)
	r.peerID, r.ackSize, r.ackStatus = uint64(req), size, status
	ep.w.replies.answer(ep, r, kind, ep.w.replies.answerSource(ep))
}

// answerSource is who pays for an answer over the endpoint: who has just asked, or else who
// opened it, as far as that is known.
func (rs *replyState) answerSource(ep *Endpoint) *source {
	if s := ep.w.accounts.offerSource; s != nil {
		return s
	}
	if s := ep.w.accounts.openedBy(ep); s != nil {
		return s
	}
	return &ep.w.accounts.unnamed
}

// The memory of a message that is offered, or of one that is asked for, is opened to the
// peer as long as the request lives: with all domains that let peers at it by its address
// (guards), and with those that need a key, for which the offer or the answer brings one
// (ucp_rkey_pack_memh in src/ucp/core/ucp_rkey.c). Which lanes the peer uses is its own
// choice; keys are for those that we would use.

// messageKeys are the keys that messages to a peer bring.
type messageKeys struct {
	get, put []uint8 // domains of ours, in ascending order, whose keys offers and answers have
	size     int     // bytes of the longest packed key
}

// maxMessageKeys bounds the lanes that the data of one message goes over.
const maxMessageKeys = 4

// keyed reports whether a domain opens memory for one message, by a key.
func (rv *rndvState) keyed(md int) bool {
	w := rv.w
	const want = uct.MDFlagNeedRkey | uct.MDFlagRegister
	_, plain := w.mds[md].(uct.ValueKeys)
	return plain && w.mds[md].Attr().Flags&want == want
}

// messageKeys says which keys go with messages over the lanes of a configuration.
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

// exposeMemory opens the request's memory to the peer, of domains with keys those that
// are given, and returns its address, 0 if it stays closed.
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

// open opens memory with a domain that needs a key: by the registration of the memory that
// it lies in, if that grants it, or one of its own.
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

// grants reports whether the memory's registration with a domain, by its index, gives peers
// these rights.
func (m *Memory) grants(index int, access uct.Access) bool {
	return m.handles[index] != nil && !m.limited && m.prot.access()&access == access
}

// appendKey appends the packed key of what is exposed.
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
			// A key of ours that its own domain does not pack opens nothing.
			return proto.AppendRkeyHeader(b[:start], ucs.MemoryHost.Wire())
		}
	}
	return b
}

// peerKeys are the values of the keys that a message brought for lanes.
type peerKeys [maxMessageKeys]uint64

// read takes the keys for lanes out of a packed key, and reports whether it has all that
// they need. The bytes are untrusted.
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

// anyKeyed reports whether lanes need keys.
func anyKeyed(lanes []memoryLane) bool {
	return slices.ContainsFunc(lanes, func(l memoryLane) bool { return l.keyed })
}

// keyOf is the key for a lane, nil where none is needed. It is valid until the next call.
func (rv *rndvState) keyOf(r *Request, k *peerKeys, lanes []memoryLane, i int) *uct.Rkey {
	if !lanes[i].keyed {
		return nil
	}
	m := r.w.rights.memory(r)
	m.rkey.Value = k[i]
	return &m.rkey
}
