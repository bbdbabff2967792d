package ucp

import (
	"bytes"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/statuserr"
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

	key        []byte       // packed key of the offer that is being received
	mappedKeys []*mappedKey // mapped memory of peers, most recently used first
	w          *Worker
}

// offerHandler receives an offer. key is the packed key in the offer, empty for none, and rest the
// bytes that follow it. Both are valid during the call. The result is that of a message handler
// (uct.AMHandler).
type offerHandler func(src *uct.Source, h proto.RndvRTS, key, rest []byte) error

// start collects the offer handlers of the families.
func (rndvFamily) start(w *Worker) {
	for _, f := range families {
		if op, fn := f.offers(w); fn != nil && w.has(f) {
			w.rndv.offers[op] = fn
		}
	}
}

// rndvATS tells the sender of a rendezvous message that the receiver is done with it. rndvATP tells
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

// sendATS ends a rendezvous of size bytes that the peer has offered. The status is OK if the data
// was read or is not wanted; otherwise it is the error of the rendezvous.
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
// the offer being received, else the one that opened the endpoint, else accountTable.unnamed.
func (rs *replyState) answerSource(ep *Endpoint) *source {
	if s := ep.w.accounts.rndvSource; s != nil {
		return s
	}
	if s := ep.w.accounts.openedBy(ep); s != nil {
		return s
	}
	return &ep.w.accounts.unnamed
}

// The memory of a message is open to the peer from the offer, at the sender, or from the request
// for data, at the receiver, until the request ends. It is opened with all domains that give access
// by address alone (guards), and with domains that need a key, which the offer (RTS) or the answer
// (RTR) contains (ucp_rkey_pack_memh in src/ucp/core/ucp_rkey.c). The peer chooses the lanes that
// it uses; the keys are for those that this worker would use.

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
	_, plain := w.mds[md].(uct.DeviceMemory)
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
		r.w.rights.findMemory(r, int(domains[0]))
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
		v, err := w.mds[lanes[i].md].(uct.DeviceMemory).RkeyValue(part)
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

// A rendezvous whose offer contains a key for memory that this process can map: the data is copied
// directly from the sender's memory to its destination, and the sender is told with an ATS
// (src/ucp/rndv/rndv_rkey_ptr.c).
//
//	RTS ──► map, once for all messages from that memory
//	        copy a piece … progress … copy a piece
//	   ◄── ATS
//
// One piece of a long message is copied in a round of progress, so that other messages go on.

// rndvPtr copies the data; rndvGetATS then sends the ATS.
type rndvPtr struct{ basics }

func (rndvPtr) about() protocolInfo {
	return protocolInfo{name: "rndv copy from mapped memory", kind: kindRead}
}

// stepQueuedCopy is the step of a message that is copied from the worker's copying queue, one piece a
// round.
const stepQueuedCopy = 1

// progress copies a message of one piece in the call if nothing else is in the copying queue. Other
// messages are queued there, and stay at its head until they are done: messages are received one
// after the other.
func (rndvPtr) progress(r *Request) error {
	w, f := r.w, r.fetch
	if r.step != stepQueuedCopy && (!w.copying.Empty() || f.size > w.pieceSize) {
		r.step = stepQueuedCopy
		r.requeue()
		return nil
	}
	n := min(w.pieceSize, f.size-r.offset)
	a := f.attached
	src, err := w.mds[a.md].RkeyPtr(a.key, f.source+uint64(r.offset), n)
	var failed error // of the receiver's datatype
	if err == nil {
		failed, err = r.w.rndv.unpackMapped(r, src)
	}
	r.offset += n
	switch {
	case failed != nil:
		r.ep.w.rndv.sendATS(r.ep, proto.RequestID(r.peerID), f.size, ucs.OK) // the error is the receiver's own
		r.finish(failed)
	case err == nil && r.offset < f.size:
		w.copying.PushFront(&r.node)
		w.due.Store(true)
	default:
		r.w.rndv.releaseMappedKey(r)
		r.w.rndv.fetched(r, err)
	}
	return nil
}

// release ends the use of the mapping.
func (rndvPtr) release(r *Request) {
	if r.fetch.attached != nil {
		r.w.rndv.releaseMappedKey(r)
	}
}

// unpackMapped unpacks the bytes at src, mapped memory that the peer may remove at any time. failed
// is the error of the receiver's datatype; err is that of a fault in the mapped memory.
func (rv *rndvState) unpackMapped(r *Request, src []byte) (failed, err error) {
	defer fault.End(fault.Begin(), mapped{}, src, &err)
	return unpackData(r, src, r.offset), nil
}

// mapped is the fault handler for mapped memory that a sender may remove.
type mapped struct{}

// Fault implements fault.Owner.
func (mapped) Fault(addr uint64, mem []byte) error {
	if !fault.Within(addr, mem) {
		return nil
	}
	return statuserr.Errorf(ucs.ErrConnectionReset, "ucp: the sender has removed its memory: fault at %#x", addr)
}

// unpackKey unpacks a key that the peer sent. The bytes are untrusted. Where a key could name
// memory of any process, only the peer's process is accepted.
func (rv *rndvState) unpackKey(ep *Endpoint, md uct.MemoryDomain, packed []byte) (*uct.Rkey, error) {
	d, ok := md.(uct.MappedMemory)
	switch {
	case !ok:
		return md.UnpackRkey(packed)
	case ep.process == 0:
		return nil, fmt.Errorf("ucp: remote key of %s: no lane identifies the process that sent it: %w", md.Attr().Name, ucs.ErrUnreachable)
	}
	return d.UnpackRkeyOf(ep.process, packed)
}

// mappedKey is memory of a peer that is mapped in this process. It stays mapped for later messages
// until the peer reuses the name of the memory for other memory, the endpoint is closed, or many
// other mapped keys were used since.
type mappedKey struct {
	ep      *Endpoint   // the endpoint that used the key last
	process uct.Process // the peer's process
	md      uint8
	packed  []byte // the domain's packed key
	key     *uct.Rkey
	use     int  // number of requests that copy from it
	gone    bool // to be unmapped when use is 0
}

const (
	// minMappedKeys and maxMappedKeys bound the mapped keys that a worker keeps while they are
	// unused. Between these bounds it keeps two for each endpoint. Mapping memory anew for each
	// message would take longer than the message itself.
	minMappedKeys = 64
	maxMappedKeys = 1024

	// maxLooks is how many unused mapped keys are checked for each new one: those whose memory the
	// peer has freed are unmapped.
	maxLooks = 4
)

// mapKey maps the n bytes at addr of the peer if one of the domains in packed, a packed key, opens
// them all, and counts a use. The bytes of packed are untrusted: an invalid key maps nothing, and
// the message takes another protocol. The result is then nil.
func (rv *rndvState) mapKey(ep *Endpoint, packed []byte, addr uint64, n int) *mappedKey {
	w := rv.w
	k, _, err := proto.ParseRkey(packed)
	if err != nil {
		return nil
	}
	if t, ok := ucs.MemoryTypeFromWire(k.MemType); !ok || t != ucs.MemoryHost {
		return nil
	}
	for i := range ep.cfg.maps {
		m := &ep.cfg.maps[i]
		key, ok := k.Key(m.peerMD)
		if !ok {
			continue
		}
		a, err := rv.mapOfferedKey(ep, m.md, key)
		if err == nil {
			_, err = w.mds[a.md].RkeyPtr(a.key, addr, n)
		}
		if err == nil {
			a.use++
			return a
		}
		rv.mapKeyFailed(m, err)
	}
	return nil
}

//go:noinline
func (rv *rndvState) mapKeyFailed(m *mapping, err error) {
	w := rv.w
	w.ctx.log.Debug("cannot map memory of the peer", zap.String("worker", w.name),
		zap.String("domain", m.iface.attr.Resource.String()), zap.Error(err))
}

// mapOfferedKey returns the mapped key for a packed key of the domain md, and moves it to the head
// of the list. It maps the memory unless that is mapped already.
func (rv *rndvState) mapOfferedKey(ep *Endpoint, md uint8, packed []byte) (*mappedKey, error) {
	w := rv.w
	for i, a := range rv.mappedKeys {
		if a.md != md || a.process != ep.process || !bytes.Equal(a.packed, packed) {
			continue
		}
		if c, ok := w.mds[md].(uct.MappedMemory); !ok || !c.RkeyCurrent(a.key) {
			rv.forgetMappedKey(i)
			break
		}
		copy(rv.mappedKeys[1:i+1], rv.mappedKeys[:i])
		rv.mappedKeys[0] = a
		a.ep = ep
		return a, nil
	}
	// The peer may change the message that contains packed. Later keys must be compared with
	// exactly the bytes that were mapped.
	packed = bytes.Clone(packed)
	key, err := rv.unpackKey(ep, w.mds[md], packed)
	if err != nil {
		return nil, err
	}
	rv.trimMappedKeys()
	a := &mappedKey{ep: ep, process: ep.process, md: md, packed: packed, key: key}
	rv.mappedKeys = slices.Insert(rv.mappedKeys, 0, a)
	return a, nil
}

// maxMappedKeys returns how many mapped keys the worker keeps.
func (rv *rndvState) maxMappedKeys() int {
	w := rv.w
	return min(max(2*w.endpoints.Len(), minMappedKeys), maxMappedKeys)
}

// trimMappedKeys makes room for a new mapped key, starting with the least recently used. It also
// removes each key that it checks if the peer has freed the memory.
func (rv *rndvState) trimMappedKeys() {
	w := rv.w
	for i, looks := len(rv.mappedKeys)-1, 0; i >= 0; i-- {
		full := len(rv.mappedKeys) >= rv.maxMappedKeys()
		if !full && looks == maxLooks {
			return
		}
		a := rv.mappedKeys[i]
		if a.use > 0 {
			continue
		}
		looks++
		if c, ok := w.mds[a.md].(uct.MappedMemory); full || ok && c.RkeyAbandoned(a.key) {
			rv.forgetMappedKey(i)
		}
	}
}

// forgetMappedKey takes a mapped key out of the list, and unmaps it now or after its last use.
func (rv *rndvState) forgetMappedKey(i int) {
	a := rv.mappedKeys[i]
	rv.mappedKeys = slices.Delete(rv.mappedKeys, i, i+1)
	a.gone = true
	rv.unmapKey(a)
}

// forgetMappedKeys forgets the mapped keys that an endpoint used last.
func (rv *rndvState) forgetMappedKeys(ep *Endpoint) {
	for i := len(rv.mappedKeys) - 1; i >= 0; i-- {
		if rv.mappedKeys[i].ep == ep {
			rv.forgetMappedKey(i)
		}
	}
}

func (rv *rndvState) unmapKey(a *mappedKey) {
	w := rv.w
	if a.gone && a.use == 0 {
		// The key was unpacked here and is released once, so there is no error to expect.
		_ = w.mds[a.md].ReleaseRkey(a.key)
		a.key = nil
	}
}

// releaseMappedKey ends the use of a mapped key by r.
func (rv *rndvState) releaseMappedKey(r *Request) {
	a := r.fetch.attached
	r.fetch.attached = nil
	a.use--
	r.w.rndv.unmapKey(a)
}
