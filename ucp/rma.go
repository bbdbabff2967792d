package ucp

import (
	"fmt"
	"math"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// One-sided operations use one of these protocols, depending on the lanes that can use the key:
//
//	put short, put and get copied   a transport call for each piece (rma_direct.go)
//	put, get zero-copy              directly between the application's memory and the peer's
//	messages                        PUT, GET_REQ: the peer's worker does it (rma_messages.go)
//
// A put is done when its buffer may be reused; only a flush says that it has
// taken effect (flush.go).

// rmaFamily contains puts and gets on registered memory of the peer, and what all one-sided
// operations have in common.
type rmaFamily struct{ noFamily }

func (rmaFamily) about() familyInfo {
	return familyInfo{name: "rma", features: FeatureRMA | FeatureAMO32 | FeatureAMO64}
}

func (rmaFamily) handlers(w *Worker) []handler {
	list := []handler{{proto.IDCmpl, w.rma.onCompletion}}
	if w.ctx.params.Features&FeatureRMA != 0 {
		list = append(list, handler{proto.IDPut, w.rma.onPut}, handler{proto.IDGetReq, w.rma.onGetReq}, handler{proto.IDGetRep, w.rma.onGetRep})
	}
	return list
}

// Flags and parameters that Put and Get accept.
var (
	callPut = callRule{"a put", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory}
	callGet = callRule{"a get", accessFlags, paramBuffer | paramOnSend | paramMemoryType | paramMemory}
)

// rmaState is a worker's state of one-sided operations.
type rmaState struct {
	keys    list.Set[Rkey] // the open keys
	serving int            // number of answers in flight to operations of peers
	w       *Worker
}

func (rmaFamily) stop(w *Worker) error { return w.closeKeys() }

// purge ends the flushes of the endpoint that wait for operations by messages.
func (rmaFamily) purge(ep *Endpoint, err error) {
	if f := ep.rma; f != nil {
		abortAll(&f.flushing, err)
	}
}

func (rmaFamily) explain(ep *Endpoint, _ *epConfig) []proto.TableInfo {
	if ep == nil {
		return nil
	}
	return ep.w.rma.explainRMA(ep)
}

// accessState is the state of a one-sided operation.
type accessState struct {
	key   *Rkey
	route *rkeyLane // the lane that the operation takes, nil for messages

	lanes  []rkeyLane        // zero-copy: the lanes of the key
	shares *proto.LaneShares // zero-copy: the share of each of these lanes in the data

	addr    uint64       // address in the peer's memory
	arrived int          // bytes of a get that have arrived
	ranges  rangeset.Set // ranges of a get that have arrived in messages
	atomic  atomicOp
}

// Put writes buf, or RequestParams.Buffer of any datatype, to the peer's memory at raddr,
// which key gives access to. Done means that buf may be reused; only a flush guarantees
// that the data has reached the peer's memory. A put to an address that the peer has not
// registered for writing ends with an error if the transport can tell; otherwise the peer
// drops the connection.
func (ep *Endpoint) Put(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.Put", ep == nil)
	}
	if !ep.w.owner.tryAcquire() {
		return ep.w.rma.delegateAccess(ep, startPut, &callPut, buf, raddr, key, p)
	}
	r, err := ep.w.rma.beginPut(ep, buf, raddr, key, p)
	ep.w.owner.release()
	return r, err
}

// delegateAccess delegates a put or get to the goroutine that owns the worker.
func (rm *rmaState) delegateAccess(ep *Endpoint, start func(*call) (*Request, error), rule *callRule, buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	c := ep.w.newCall(start).with(p)
	c.ep, c.buf, c.raddr, c.key, c.rule = ep, buf, raddr, key, rule
	return c.delegate()
}

func startPut(c *call) (*Request, error) {
	return c.ep.w.rma.beginPut(c.ep, c.buf, c.raddr, c.key, c.p)
}

// beginPut starts a put; a short one is one call of the transport.
func (rm *rmaState) beginPut(ep *Endpoint, buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if key != nil && len(buf) <= key.shortPut && raddr+uint64(len(buf)) > raddr && key.ep == ep && ep.ready() &&
		(p == nil || p.plainSend()) {
		way := key.putShort
		switch err := ep.lanes[way.lane].remote.PutShort(buf, raddr, way.key); err {
		case nil:
			ep.w.stats.Puts++
			ep.markDirect()
			return nil, nil
		case ucs.ErrNoResource:
		default:
			return ep.put(buf, raddr, key, p) // returns a full error
		}
	}
	return ep.put(buf, raddr, key, p)
}

func (ep *Endpoint) put(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	r, err := ep.w.rma.describeAccess(ep, &callPut, buf, raddr, key, p)
	if err != nil || r.data.Length == 0 {
		return ep.w.rma.accessNothing(ep, r, err)
	}
	ep.w.stats.Puts++
	r.op = putOperation{}
	if p != nil && p.Flags&OpForceImmediate != 0 {
		return ep.putNow(r)
	}
	ep.submit(r)
	return r.result()
}

// putOperation is the operation of writing to the peer's memory.
type putOperation struct{}

func (putOperation) name() string { return "put" }

func (putOperation) choose(r *Request) (protocol, error) {
	k := r.access.key
	if k.closed {
		return nil, errKeyClosed
	}
	class := r.class()
	way := k.tables.Put(class).Lookup(r.data.Length)
	if way == proto.ProtoPutZcopy && !r.w.rma.onRails(r, k.tables.PutRails(), uct.AccessLocalRead) {
		class = proto.DataGeneric
		way = k.tables.Put(class).Lookup(r.data.Length)
	}
	r.w.selection.countAccess(r, k.tables, k.tables.Put(class), class)
	switch way {
	case proto.ProtoPutShort:
		r.splitLong()
		return putShort{}, r.w.rma.setLane(r, k.putShort)
	case proto.ProtoPutBcopy:
		r.splitLong()
		return putCopy{}, r.w.rma.setLane(r, k.putBcopy)
	case proto.ProtoPutZcopy:
		return putZcopy{}, r.w.rma.setLane(r, k.putZcopy)
	}
	r.splitLong()
	r.ep.w.rma.markMessages(r.ep)
	return putMessages{}, nil
}

// Get reads from the peer's memory at raddr, which key gives access to, into buf or
// RequestParams.Buffer. Done means that the data has arrived. With OpForceImmediate it
// always gives ucs.ErrNoResource, or ucs.ErrUnsupported into a generic datatype, as in
// every release of C.
func (ep *Endpoint) Get(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.Get", ep == nil)
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		return w.rma.delegateAccess(ep, startGet, &callGet, buf, raddr, key, p)
	}
	r, err := w.rma.beginGet(ep, buf, raddr, key, p)
	w.owner.release()
	return r, err
}

func startGet(c *call) (*Request, error) {
	return c.ep.w.rma.beginGet(c.ep, c.buf, c.raddr, c.key, c.p)
}

// beginGet starts a get; a short one is one call of the transport.
func (rm *rmaState) beginGet(ep *Endpoint, buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if key != nil && len(buf) <= key.shortGet && raddr+uint64(len(buf)) > raddr && key.ep == ep && ep.ready() &&
		(p == nil || p.plainSend()) {
		r, err := rm.getDirect(ep, buf, raddr, key, p)
		if err != ucs.ErrNoResource {
			return r, err
		}
	}
	return ep.get(buf, raddr, key, p)
}

func (ep *Endpoint) get(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	r, err := ep.w.rma.describeAccess(ep, &callGet, buf, raddr, key, p)
	if err != nil || r.data.Length == 0 {
		return ep.w.rma.accessNothing(ep, r, err)
	}
	ep.w.stats.Gets++
	r.op = getOperation{}
	ep.submit(r)
	return r.result()
}

// getOperation is the operation of reading the peer's memory.
type getOperation struct{}

func (getOperation) name() string { return "get" }

func (getOperation) choose(r *Request) (protocol, error) {
	k := r.access.key
	if k.closed {
		return nil, errKeyClosed
	}
	class := r.class()
	way := k.tables.Get(class).Lookup(r.data.Length)
	if way == proto.ProtoGetZcopy && !r.w.rma.onRails(r, k.tables.GetRails(), uct.AccessLocalWrite) {
		class = proto.DataGeneric
		way = k.tables.Get(class).Lookup(r.data.Length)
	}
	r.w.selection.countAccess(r, k.tables, k.tables.Get(class), class)
	switch way {
	case proto.ProtoGetBcopy:
		r.splitLong()
		return getCopy{}, r.w.rma.setLane(r, k.getBcopy)
	case proto.ProtoGetZcopy:
		return getZcopy{}, r.w.rma.setLane(r, k.getZcopy)
	}
	return getMessages{}, r.w.rma.assignID(r)
}

// getDirect does a get with one copying call of the transport. If the transport finishes later, the
// spare request becomes the request of the get.
func (rm *rmaState) getDirect(ep *Endpoint, buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	w, way := ep.w, key.getBcopy
	r := w.pool.spare // used only if the operation goes on after the call
	a := rm.accessing(r)
	r.data.SetBytes(buf)
	r.proto, a.arrived = getCopy{}, 0
	err := ep.lanes[way.lane].remote.GetBcopy(r.hooks(), len(buf), raddr, way.key, &r.comp)
	if err != nil && err != ucs.InProgress {
		finishData(r)
		return nil, err
	}
	w.stats.Gets++
	ep.markDirect()
	if err == nil {
		finishData(r)
		return nil, nil
	}
	w.pool.nextSpare()
	r.adoptSpare(ep, key, way, p)
	return r, nil
}

// adoptSpare turns the spare request into the request of a direct operation in flight.
func (r *Request) adoptSpare(ep *Endpoint, key *Rkey, way *rkeyLane, p *RequestParams) {
	r.bind(ep)
	r.lane = way.lane
	r.access.key, r.access.route = key, way
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
}

// accessing returns the request's accessState, and creates it if there is none.
func (rm *rmaState) accessing(r *Request) *accessState {
	if r.access == nil {
		r.access = new(accessState)
	}
	return r.access
}

// target makes the request a one-sided operation on the peer's memory at addr.
func (rm *rmaState) target(r *Request, ep *Endpoint, key *Rkey, addr uint64) *accessState {
	ep.flow()
	a := rm.accessing(r)
	if r.ep == nil { // a request of the library itself has its endpoint already
		r.bind(ep)
	}
	r.offset = 0
	a.key, a.route, a.addr = key, nil, addr
	a.arrived = 0
	a.ranges.Reset()
	return a
}

// describeAccess checks the parameters of a put or get and makes its request.
func (rm *rmaState) describeAccess(ep *Endpoint, c *callRule, buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	w := ep.w
	if err := c.check(buf, p); err != nil {
		return nil, err
	}
	if c == &callGet && p != nil && p.Flags&OpForceImmediate != 0 {
		return nil, ucs.ErrNoResource
	}
	if w.ctx.params.Features&FeatureRMA == 0 {
		return nil, w.missingFeature(c.name, FeatureRMA)
	}
	if !key.opens(ep) {
		return nil, ep.wrongKey(c.name, key)
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &noParams
	}
	switch {
	case c == &callPut:
		if r.data.SetBytes(buf); p.Buffer.set {
			err = r.setBuffer(&p.Buffer, true)
		}
	case p.Buffer.class == DatatypeGeneric:
		err = fmt.Errorf("ucp: get into a generic datatype: %w", ucs.ErrUnsupported)
	default:
		if r.data.SetBytes(buf); p.Buffer.set {
			err = r.setBuffer(&p.Buffer, false)
		}
	}
	if err == nil {
		err = p.checkMemory(w.ctx, &r.data)
	}
	if err == nil && raddr+uint64(r.data.Length) < raddr {
		err = fmt.Errorf("ucp: %d bytes at %#x go beyond the address space: %w", r.data.Length, raddr, ucs.ErrInvalidAddr)
	}
	if err != nil {
		w.pool.dropRequest(r)
		return nil, err
	}
	r.w.rights.attachMemory(r, p.Memory)
	rm.target(r, ep, key, raddr)
	return r, nil
}

// accessNothing returns the result of an operation on no bytes, or of one that was refused with
// err.
func (rm *rmaState) accessNothing(ep *Endpoint, r *Request, err error) (*Request, error) {
	if err != nil {
		return nil, err
	}
	r.finish(nil)
	return r.result()
}

// errKeyClosed ends operations whose key was closed before they began.
var errKeyClosed = fmt.Errorf("ucp: the key was closed before the operation began: %w", ucs.ErrInvalidParam)

// opens reports whether an operation of ep may use the key.
func (k *Rkey) opens(ep *Endpoint) bool { return k != nil && k.ep == ep && !k.closed }

// ready reports whether a one-sided operation may use its lane at once.
func (ep *Endpoint) ready() bool {
	return ep.waiting.Empty() && ep.life.Usable() && ep.state&epDraining == 0 &&
		ep.needs&(needFence|needLanes) == 0
}

// setLane sets the lane of a direct operation.
func (rm *rmaState) setLane(r *Request, way *rkeyLane) error {
	r.access.route, r.lane = way, way.lane
	r.ep.markDirect()
	return nil
}

// putNow carries out a put with OpForceImmediate in the call, or returns an error and has no
// effect.
func (ep *Endpoint) putNow(r *Request) (*Request, error) {
	err := error(ucs.ErrNoResource)
	key, n := r.access.key, r.data.Length
	switch short, bcopy := key.putShort, key.putBcopy; {
	case !ep.ready():
	case short != nil && r.data.Class == datatype.Contig && n <= short.attr.Put.MaxShort:
		r.w.rma.setLane(r, short)
		err = r.w.rma.putShortPiece(r, n)
	case bcopy != nil && n <= bcopy.attr.Put.MaxBcopy:
		r.proto = putCopy{}
		r.w.rma.setLane(r, bcopy)
		err = r.putCopyPiece(n)
	case short == nil && bcopy == nil && ep.remoteID != 0 && n <= ep.cfg.maxBcopy-proto.PutSize:
		r.proto = putMessages{}
		ep.w.rma.markMessages(ep)
		err = sendPut(r, uct.SendNow)
	}
	ep.w.pool.dropRequest(r)
	return nil, err
}

// never is a size that no operation reaches.
const never = math.MaxInt

// rmaTables returns the decision tables for the memory of a key. Keys that the same lanes can use
// share their tables. A lane serves the operations that the selection chose it for. Where the
// selection chose no lane, the lane of messages serves any operation that it is capable of.
func (rm *rmaState) rmaTables(ep *Endpoint, k *Rkey) *proto.RMATables {
	var lanes uint64
	for i := range k.lanes {
		lanes |= 1 << k.lanes[i].lane
	}
	if t := ep.cfg.rma[lanes]; t != nil {
		return t
	}
	w := ep.w
	am := ep.lanes[ep.amLane()].iface
	in := proto.RMAInput{AM: w.selection.lanePerf(am, ep.cfg.segSize), Settings: w.selection.protoSettings(am)}
	in.Rails = int(min(w.ctx.settings.RMARails, proto.MaxLanes))
	in.Spread = proto.Spread{MaxRatio: w.ctx.settings.LaneRatio, MinChunk: w.ctx.settings.RMAChunk.Int(0)}
	for i := range k.lanes {
		l := w.rma.rmaLane(&k.lanes[i], ep.lanes[k.lanes[i].lane].iface)
		ep.cfg.lanes.Restrict(k.lanes[i].lane, &l)
		if w.ctx.settings.RMARails == 0 {
			l.PutZcopy, l.GetZcopy = 0, 0
		}
		in.Lanes = append(in.Lanes, l)
	}
	t := proto.NewRMATables(&in)
	if ep.cfg.rma == nil {
		ep.cfg.rma = make(map[uint64]*proto.RMATables)
	}
	ep.cfg.rma[lanes] = t
	if w.ctx.settings.ProtoInfo.prints(w.ctx.log) {
		w.printTables(ep.cfg, t.Explain(proto.DataContig))
	}
	return t
}

// rmaLane describes a lane of a key for the cost model.
func (rm *rmaState) rmaLane(way *rkeyLane, i *iface) proto.RMALane {
	w := rm.w
	a := i.attr
	l := proto.RMALane{
		Perf:        w.selection.lanePerf(i, 0),
		MinPutZcopy: a.Put.MinZcopy,
		MinGetZcopy: a.Get.MinZcopy,
		Atomic32:    allAtomics(a.Atomic32),
		Atomic64:    allAtomics(a.Atomic64),
	}
	if a.Flags.Has(uct.IfacePutShort) {
		l.PutShort = a.Put.MaxShort
	}
	if a.Flags.Has(uct.IfacePutBcopy) {
		l.PutBcopy = a.Put.MaxBcopy
	}
	if a.Flags.Has(uct.IfaceGetBcopy) {
		l.GetBcopy = a.Get.MaxBcopy
	}
	if way.zcopy(uct.IfacePutZcopy) {
		l.PutZcopy = a.Put.MaxZcopy
	}
	if way.zcopy(uct.IfaceGetZcopy) {
		l.GetZcopy = a.Get.MaxZcopy
	}
	return l
}

// explainRMA returns the tables for one-sided operations with their reasons: those of the
// endpoint's keys, or if it has no keys, those of a key that every lane can use. As long as the
// endpoint has no lanes there are no tables.
func (rm *rmaState) explainRMA(ep *Endpoint) []proto.TableInfo {
	if len(ep.lanes) == 0 {
		return nil
	}
	var tables []proto.TableInfo
	seen := make(map[*proto.RMATables]bool)
	add := func(t *proto.RMATables) {
		if !seen[t] {
			seen[t] = true
			tables = append(tables, t.Explain(proto.DataContig)...)
		}
	}
	for m := ep.w.rma.keys.First(); m != nil; m = m.Next() {
		if k := m.Value; k.ep == ep && k.tables != nil {
			add(k.tables)
		}
	}
	if tables == nil {
		k := &Rkey{ep: ep}
		for i := range ep.lanes {
			k.lanes = append(k.lanes, rm.rkeyLaneOf(ep, uint8(i)))
		}
		add(rm.rmaTables(ep, k))
	}
	return tables
}

// zcopy reports whether the lane is capable of the zero-copy operation flag, and either needs no
// registration of local memory or lets the library register it.
func (w *rkeyLane) zcopy(flag uct.IfaceFlags) bool {
	f := w.md.Attr().Flags
	return w.attr.Flags.Has(flag) && (f&uct.MDFlagNeedMemh == 0 || f&uct.MDFlagRegister != 0)
}
