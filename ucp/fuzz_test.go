package ucp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// script is a list of messages as the fuzzer sees them. Each is
//
//	handler   5 bits, and 3 bits: the connection that the message comes on, 0 for a
//	          transport that does not tell connections apart
//	patch     1 byte: which live id is put into the message, and where
//	length    1 byte
//	message   length bytes
//
// Without the live ids a fuzzer would never get past the first look-up in a table.
// Some numbers of handlers are other events: the end of a connection, and calls of the
// application.
type script []byte

// step returns one step of a script: a message, or another event.
func step(handler int, patch byte, message []byte) []byte {
	return append([]byte{byte(handler), patch, byte(len(message))}, message...)
}

// on makes the first step of a script come on a connection.
func on(source int, s []byte) []byte {
	s[0] |= byte(source << 5)
	return s
}

// fuzzSources is how many connections a script can name.
const fuzzSources = 7

// fuzzConn is a connection of a script.
type fuzzConn struct {
	uct.BasicSource
	uct.BasicConnection
	src    uct.Source
	at     int
	gone   bool
	paused bool
}

var _ interface {
	uct.SourceOwner
	uct.Connection
} = (*fuzzConn)(nil)

func (c *fuzzConn) DropSource(error) { c.end() }
func (c *fuzzConn) PauseSource()     { c.paused = true }
func (c *fuzzConn) ResumeSource()    { c.paused = false }

func (c *fuzzConn) HeldBy(uct.Process) bool { return c.at%2 == 0 }

// SourceInfo implements uct.Connection: always two connections share an IP address.
func (c *fuzzConn) SourceInfo() uct.SourceInfo {
	return uct.SourceInfo{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(c.at / 2)}), uint16(c.at+1))}
}

// end ends the connection.
func (c *fuzzConn) end() {
	if !c.gone {
		c.gone = true
		c.src.Gone()
	}
}

// The upper bits of a patch: where it puts a live id. The lower bits are the number of
// the live id.
const (
	patchNone = iota << 4
	patchAt0
	patchAt4
	patchAt8
	patchAt12
	patchAt16
	patchAt24
	patchAt32
	patchPlaces
)

var patchOffsets = [patchPlaces >> 4]int{-1, 0, 4, 8, 12, 16, 24, 32}

// fuzzTarget is a worker with an operation of every kind in flight.
type fuzzTarget struct {
	*targetWorker
	handlers [fuzzSteps]uct.AMHandler // nil for an event that is not a message
	live     []uint64                 // ids that peers may know
	open     []*Request
	memory   *target // memory that peers may access
	conns    [fuzzSources]*fuzzConn
	active   []*AMMessage // the messages that were kept
	queue    *AMQueue
}

// The handlers by number, as scripts name them.
const (
	fuzzWireup = iota
	fuzzEagerOnly
	fuzzEagerFirst
	fuzzEagerMiddle
	fuzzSyncOnly
	fuzzSyncFirst
	fuzzSyncAck
	fuzzRTS
	fuzzRTR
	fuzzData
	fuzzATS
	fuzzATP
	fuzzPut
	fuzzGetReq
	fuzzGetRep
	fuzzAtomicReq
	fuzzAtomicRep
	fuzzCompletion
	fuzzStream
	fuzzGone     // the connection ends
	fuzzReceive  // the application posts a receive, with the tag in the patch
	fuzzTake     // the application takes a message and receives it, or discards it
	fuzzCancel   // the application cancels its posted receives
	fuzzRead     // the application receives from the stream, as the patch says (fuzzTarget.read)
	fuzzProgress // the application progresses the worker
	fuzzAMSingle
	fuzzAMReply
	fuzzAMFirst
	fuzzAMMiddle
	fuzzSteps
)

// fuzzEndpointAt is the offset of the endpoint's id in messages that also contain an
// address. In such messages any patch sets this id, too.
var fuzzEndpointAt = map[int]int{fuzzPut: 8, fuzzGetReq: 16, fuzzAtomicReq: 8}

// The live ids by number.
const (
	liveEndpoint = iota
	liveOffer
	liveSync
	liveFetch
	liveMessage
	liveMemory
	liveGet
	liveAtomic
)

// fuzzSettings are the settings of the worker. The limits for peers are low, so that a
// script of some hundred bytes reaches them.
var fuzzSettings = []string{"MAX_UNEXP_EPS", "3", "MAX_UNEXP_BYTES", "6k", "RNDV_THRESH", "2k", "KEEPALIVE_INTERVAL", "inf"}

// fuzzOffer is the length of the message that the target offers.
const fuzzOffer = 5000

func newFuzzTarget(t testing.TB, w *fuzzWorker) *fuzzTarget {
	v := newTargetOf(t, w.get(t), nil)
	f := &fuzzTarget{targetWorker: v}
	copy(f.handlers[:], []uct.AMHandler{
		v.wireups.onWireup, v.tag.onEagerOnly(), v.tag.onEagerFirst, v.tag.onEagerMiddle, v.tag.onEagerSyncOnly, v.tag.onEagerSyncFirst,
		v.tag.onEagerSyncAck, v.rndv.onRndvRTS, v.rndv.onRndvRTR, v.rndv.onRndvData, v.rndv.onRndvATS, v.rndv.onRndvATP,
		v.rma.onPut, v.rma.onGetReq, v.rma.onGetRep, v.rma.onAtomicReq, v.rma.onAtomicRep, v.rma.onCompletion, v.stream.onStreamData(),
	})
	copy(f.handlers[fuzzAMSingle:], []uct.AMHandler{v.am.onAMSingle(), v.am.onAMSingleReply, v.am.onAMFirst, v.am.onAMMiddle})
	f.handleActive()
	offer := v.offer(fuzzOffer)
	sync := v.unmatched(0x51)
	fetch := v.fetching(make([]byte, 300))
	f.memory = w.memory
	w.memory.fill()
	get, amo := v.waiting(getMessages{}, make([]byte, 100)), v.waiting(atomicFetch{}, make([]byte, 8))
	f.open = []*Request{offer, sync, fetch, get, amo}
	f.live = []uint64{
		uint64(v.ep.localID), offer.localID, sync.localID, fetch.localID, 0x1111,
		f.memory.addr, get.localID, amo.localID,
	}
	first := proto.EagerFirst{Tag: 0x52, TotalLen: 1000, MsgID: 0x1111}.Append(nil)
	if err := v.tag.onEagerFirst(nil, append(first, 1, 2, 3), nil); err != nil {
		t.Fatal(err)
	}
	for _, mask := range []Tag{FullMask, 0xFF} {
		for tag := range Tag(3) {
			req, err := v.TagRecv(tag, mask, make([]byte, 64), nil)
			if err != nil {
				t.Fatal(err)
			}
			if req != nil {
				f.open = append(f.open, req)
			}
		}
	}
	return f
}

// conn returns connection k of the script, counted from 1, and makes a new one if there
// is none.
func (f *fuzzTarget) conn(k int) *fuzzConn {
	c := f.conns[k-1]
	if c == nil || c.gone {
		c = &fuzzConn{at: k - 1}
		c.src.Owner = c
		f.conns[k-1] = c
	}
	return c
}

// play hands the messages of a script to the handlers, as a transport would: if a
// handler returns an error, the connection ends.
func (f *fuzzTarget) play(s script) {
	for len(s) >= 3 {
		h, k, patch, n := int(s[0]&31)%fuzzSteps, int(s[0]>>5), s[1], min(int(s[2]), len(s)-3)
		message := append([]byte(nil), s[3:3+n]...)
		s = s[3+n:]
		if f.handlers[h] == nil {
			f.event(h, k, patch)
			continue
		}
		if at := fuzzEndpointAt[h]; at > 0 && patch>>4 != 0 && at+8 <= len(message) {
			binary.LittleEndian.PutUint64(message[at:], f.live[liveEndpoint])
		}
		if at := patchOffsets[int(patch>>4)%len(patchOffsets)]; at >= 0 && at+8 <= len(message) {
			binary.LittleEndian.PutUint64(message[at:], f.live[int(patch&0xF)%len(f.live)])
		}
		if k == 0 {
			f.handlers[h](nil, message, nil)
		} else if c := f.conn(k); !c.paused {
			if err := f.handlers[h](&c.src, message, nil); err != nil && err != ucs.InProgress {
				c.end()
			}
		}
		f.Progress()
	}
}

// handleActive sets handlers of active messages. What a handler does depends on the message id.
func (f *fuzzTarget) handleActive() {
	for id := range uint16(5) {
		p := AMHandlerParams{ID: id, Flags: AMHandlerFlags(id&1) * AMPersistentData}
		p.Handler = func(m *AMMessage) error {
			if to := m.Reply(); to != nil {
				req, _ := to.AMSend(9, m.Header()[:min(len(m.Header()), 8)], nil, &RequestParams{AMFlags: AMSendCopyHeader})
				req.Free()
			}
			switch id {
			case 2:
				m.Keep()
				f.active = append(f.active, m)
			case 3:
				m.Keep()
				m.Release()
			case 4:
				req, err := m.Recv(make([]byte, 64), nil)
				if req != nil {
					f.open = append(f.open, req)
				}
				return err
			}
			return nil
		}
		if err := f.SetAMHandler(p); err != nil {
			f.Fatal(err)
		}
	}
	var err error
	if f.queue, err = f.NewAMQueue(AMQueueParams{ID: 5, Offers: true}); err != nil {
		f.Fatal(err)
	}
}

// event carries out a step that is not a message.
func (f *fuzzTarget) event(h, k int, patch byte) {
	tag, mask := Tag(patch&7), FullMask
	if patch&8 != 0 {
		mask = 0
	}
	switch h {
	case fuzzGone:
		if k > 0 {
			f.conn(k).end()
		}
	case fuzzReceive:
		if req, _ := f.TagRecv(tag, mask, make([]byte, 64), nil); req != nil {
			f.open = append(f.open, req)
		}
	case fuzzTake:
		m, ok := f.TagTake(tag, mask)
		if ok && patch&16 != 0 {
			m.Discard()
		} else if ok {
			if req, _ := m.Recv(make([]byte, 64), nil); req != nil {
				f.open = append(f.open, req)
			}
		}
		if m, ok := f.queue.TryNext(); ok {
			m.Release()
		}
	case fuzzRead:
		f.read(patch)
	case fuzzCancel:
		for _, req := range f.open {
			f.Cancel(req)
		}
	}
	f.Progress()
}

// read receives from the endpoint's stream.
func (f *fuzzTarget) read(patch byte) {
	p := &RequestParams{}
	buf := make([]byte, 24)
	switch patch & 3 {
	case 0:
		if d, err := f.ep.StreamRecvData(); err == nil && patch&4 != 0 {
			d.Release()
		}
		return
	case 1:
		p.StreamFlags = StreamRecvWaitAll
	case 2:
		p.Buffer, buf = Elements(buf, 8), nil
	}
	if _, req, _ := f.ep.StreamRecv(buf, p); req != nil {
		f.open = append(f.open, req)
	}
}

// finish ends what is in flight and checks what must hold after any script.
func (f *fuzzTarget) finish() {
	for _, c := range f.conns {
		if c != nil {
			c.end()
		}
	}
	for range 50 {
		f.Progress()
	}
	f.memory.untouched(f.TB)
	if f.rma.serving != 0 {
		f.Errorf("%d answers are still under way", f.rma.serving)
	}
	if held := f.Stats().UnexpectedBytes; held < 0 || held > 16<<10 {
		f.Errorf("%d bytes are held", held)
	}
	for _, req := range f.open {
		f.Cancel(req)
	}
	for !f.tag.wild.Empty() {
		f.Cancel(f.tag.wild.Front().Value)
	}
	// The endpoint may have failed, because a message said that its peer is gone.
	if f.ep.err != nil {
		f.ep.w.ends.destroy(f.ep, ucs.ErrCanceled)
		ep, err := f.NewEndpoint(EndpointParams{Address: f.own.address})
		if err != nil {
			f.Fatal(err)
		}
		f.ep = ep
	}
	f.exchangeOf(0, 8, 1000, 9000)
	for i, req := range f.open {
		if req.Done() && req.Err() == ucs.InProgress {
			f.Errorf("request %d is done and in progress", i)
		}
	}
	f.leave()
}

// leave frees what the target has made, and checks that nothing else is left, because the worker
// serves the next script.
func (f *fuzzTarget) leave() {
	w := f.Worker
	for _, m := range f.active {
		m.Release()
	}
	f.queue.Close()
	w.endpoints.Each(func(ep *Endpoint) { ep.w.ends.destroy(ep, ucs.ErrCanceled) })
	w.eager.cancelAssemblies()
	w.tag.dropMessages()
	streamFamily{}.stop(w) // frees data that was taken and not released
	f.Progress()
	for i, req := range f.open {
		if !req.Done() {
			f.Errorf("request %d never ends", i)
		}
	}
	for what, n := range map[string]int{
		"endpoints": w.endpoints.Len(), "ids of requests": w.pool.requestIDs.Len(), "bytes": w.accounts.Held(),
		"endpoints of peers": w.wireups.unexpected, "peers": w.peers.Len(), "messages in parts": len(w.eager.assemblies),
		"answers": w.rma.serving,
	} {
		if n != 0 {
			f.Errorf("%d %s are left", n, what)
		}
	}
}

// fuzzRounds is how many scripts a worker plays before it is replaced by a new one.
const fuzzRounds = 64

// fuzzWorker is a worker that plays one script after the other.
type fuzzWorker struct {
	ctx    *Context
	w      *Worker
	memory *target // memory that peers may access
	played int
}

func newFuzzWorker(t testing.TB) *fuzzWorker {
	ctx := contextFor(t, targetFeatures|FeatureAM, fuzzSettings...)
	return &fuzzWorker{ctx: ctx, memory: mapTarget(t, ctx, 200, ProtAll)}
}

// get returns the worker for a script.
func (f *fuzzWorker) get(t testing.TB) *Worker {
	if f.played++; f.w == nil || f.played > fuzzRounds {
		f.close(t)
		f.w, f.played = openTarget(t, f.ctx), 1
	}
	return f.w
}

func (f *fuzzWorker) close(t testing.TB) {
	if f.w == nil {
		return
	}
	if err := f.w.Close(); err != nil {
		t.Error(err)
	}
	f.w = nil
}

// end closes the worker and its context after the last script.
func (f *fuzzWorker) end(t testing.TB) {
	f.close(t)
	f.memory.mem.Close()
	if err := f.ctx.Close(); err != nil {
		t.Error(err)
	}
}

// plain is a test whose method Helper does nothing, because Helper walks the stack.
type plain struct{ testing.TB }

func (plain) Helper() {}

// play plays one script, from the making of the target to its end.
func (f *fuzzWorker) play(t testing.TB, s script) {
	defer func() {
		if t.Failed() {
			f.played = fuzzRounds // it is not used again
		}
	}()
	target := newFuzzTarget(plain{t}, f)
	target.play(s)
	target.finish()
}

// seeds are scripts in which each handler gets a message that makes sense.
func seeds() []script {
	data := []byte("some data")
	with := func(header []byte) []byte { return append(header, data...) }
	wireup := func(m proto.Wireup) []byte {
		b, err := m.Append(nil)
		if err != nil {
			panic(err)
		}
		return b
	}
	none := proto.WorkerAddress{Flags: proto.AddressHasUUID, UUID: 77}
	list := []script{
		step(fuzzEagerOnly, 0, with(proto.EagerOnly{Tag: 1}.Append(nil))),
		step(fuzzEagerFirst, 0, with(proto.EagerFirst{Tag: 1, TotalLen: 18, MsgID: 5}.Append(nil))),
		step(fuzzEagerMiddle, patchAt0+liveMessage, with(proto.EagerMiddle{Offset: 9}.Append(nil))),
		step(fuzzSyncOnly, patchAt8+liveEndpoint, with(proto.EagerSyncOnly{Tag: 1, ReqID: 9}.Append(nil))),
		step(fuzzSyncFirst, patchAt24+liveEndpoint, with(proto.EagerSyncFirst{EagerFirst: proto.EagerFirst{Tag: 2, TotalLen: 18, MsgID: 6}}.Append(nil))),
		step(fuzzSyncAck, patchAt0+liveSync, proto.EagerSyncAck{}.Append(nil)),
		step(fuzzRTS, patchAt8+liveEndpoint, proto.RndvRTS{Header: 1, ReqID: 3, Size: 40}.Append(nil)),
		step(fuzzRTR, patchAt0+liveOffer, proto.RndvRTR{RecvReqID: 8, Size: 100}.Append(nil)),
		step(fuzzRTR, patchAt0+liveOffer, proto.RndvRTR{RecvReqID: 8, Size: fuzzOffer}.Append(nil)),
		step(fuzzData, patchAt0+liveFetch, with(proto.RndvData{}.Append(nil))),
		step(fuzzATS, patchAt0+liveOffer, proto.RndvAck{Size: fuzzOffer, HasSize: true}.Append(nil)),
		step(fuzzATP, patchAt0+liveFetch, proto.RndvAck{Size: 300, HasSize: true}.Append(nil)),
		step(fuzzPut, patchAt0+liveMemory, with(proto.Put{}.Append(nil))),
		step(fuzzGetReq, patchAt0+liveMemory, proto.GetReq{Length: 200, ReqID: 9}.Append(nil)),
		step(fuzzGetRep, patchAt0+liveGet, with(proto.GetRep{Offset: 5}.Append(nil))),
		step(fuzzAtomicReq, patchAt0+liveMemory, proto.AtomicReq{Size: 8, Op: uct.AtomicCSwap, ReqID: 9}.Append(nil)),
		step(fuzzAtomicReq, patchAt0+liveMemory, proto.AtomicReq{Size: 4, Value: 1}.Append(nil)),
		step(fuzzAtomicRep, patchAt0+liveAtomic, proto.AtomicRep{Size: 8}.Append(nil)),
		step(fuzzCompletion, patchAt0+liveEndpoint, proto.Cmpl{}.Append(nil)),
		step(fuzzStream, patchAt0+liveEndpoint, with(proto.StreamData{}.Append(nil))),
		step(fuzzAMMiddle, patchAt24+liveEndpoint, fuzzAM(0, make([]byte, 8), 9, 0)[:32]),
		step(fuzzWireup, 0, wireup(proto.Wireup{Type: proto.WireupRequest, SrcEp: 5, Address: none})),
		step(fuzzWireup, patchAt12+liveEndpoint, wireup(proto.Wireup{Type: proto.WireupReply, SrcEp: 5, Address: none})),
		step(fuzzWireup, patchAt12+liveEndpoint, wireup(proto.Wireup{Type: proto.WireupEpRemoved, SrcEp: 5, Address: none})),
		step(fuzzWireup, 0, wireup(proto.Wireup{Type: proto.WireupEpCheck, SrcEp: 5, DstEp: 7, Address: none})),
	}
	for id := range uint16(7) {
		h := proto.AMHeader{ID: id, Flags: id & 1, HeaderLen: 4}
		list = append(list,
			step(fuzzAMSingle, 0, with(h.Append(nil))),
			step(fuzzAMReply, patchAt16+liveEndpoint, proto.AMReplyFooter{}.Append(append(h.Append(nil), data[:8]...))),
			step(fuzzAMFirst, patchAt24+liveEndpoint, fuzzAM(h.Word(), data[:8], uint64(id), 12)),
			step(fuzzAMMiddle, patchAt24+liveEndpoint, fuzzAM(4, data[:8], uint64(id), 0)[:32]),
			step(fuzzRTS, patchAt8+liveEndpoint, append(proto.RndvRTS{Header: h.Word(), ReqID: 3, Size: 40, Op: proto.RndvAM}.Append(nil), data[:4]...)),
		)
	}
	var all script
	for _, s := range list {
		all = append(all, s...)
	}
	return append(append(list, all), connSeeds(list)...)
}

// fuzzAM returns the first fragment of an active message. The callers cut off the total
// length to get a later fragment.
func fuzzAM(word uint64, payload []byte, id uint64, total int) []byte {
	b := append(binary.LittleEndian.AppendUint64(nil, word), payload...)
	return proto.AMFirstFooter{MsgID: proto.MessageID(id), TotalLen: total}.Append(b)
}

// connSeeds returns scripts with several connections.
func connSeeds(list []script) []script {
	// All messages, each on the next connection, and then the ends of all connections.
	var spread, mixed script
	for i, s := range list {
		spread = append(spread, on(1+i%fuzzSources, append(script(nil), s...))...)
	}
	for k := 1; k <= fuzzSources; k++ {
		spread = append(spread, on(k, step(fuzzGone, 0, nil))...)
	}
	// Unexpected messages of three connections beyond the limit, then of one more.
	hoard := func(k, n int) (s script) {
		for range n {
			s = append(s, on(k, step(fuzzEagerOnly, 0, append(proto.EagerOnly{Tag: proto.Tag(k)}.Append(nil), make([]byte, 200)...)))...)
		}
		return s
	}
	var hoards script
	for range 4 {
		for k := 1; k <= 3; k++ {
			hoards = append(hoards, hoard(k, 2)...)
		}
	}
	hoards = append(hoards, hoard(4, 12)...)
	// Fragments of one message over two connections, the first of which ends.
	first := proto.EagerFirst{Tag: 5, TotalLen: 30, MsgID: 9}.Append(nil)
	parts := append(script(nil), on(1, step(fuzzEagerFirst, 0, append(first, "123456789"...)))...)
	parts = append(parts, on(2, step(fuzzEagerMiddle, 0, append(proto.EagerMiddle{MsgID: 9, Offset: 20}.Append(nil), "abcdefghij"...)))...)
	parts = append(parts, on(1, step(fuzzGone, 0, nil))...)
	parts = append(parts, on(2, step(fuzzEagerMiddle, 0, append(proto.EagerMiddle{MsgID: 9, Offset: 9}.Append(nil), "ABCDEFGHIJK"...)))...)
	parts = append(parts, step(fuzzTake, 8, nil)...)
	// Calls of the application between the messages.
	for i, s := range list {
		mixed = append(mixed, on(1+i%2, append(script(nil), s...))...)
		mixed = append(mixed, step([]int{fuzzReceive, fuzzTake, fuzzCancel, fuzzProgress}[i%4], byte(i), nil)...)
	}
	// A stream that is read in all ways, and then grows beyond the limit.
	var stream script
	for i := range 40 {
		data := append(proto.StreamData{}.Append(nil), make([]byte, min(1+11*i, 200))...)
		stream = append(stream, step(fuzzStream, patchAt0+liveEndpoint, data)...)
		if i < 20 {
			stream = append(stream, step(fuzzRead, byte(i), nil)...)
		}
	}
	return []script{spread, hoards, parts, mixed, stream}
}

// FuzzHandlers feeds a worker with messages of peers. Nothing may panic, memory
// stays within its limits, and afterwards the worker still works.
func FuzzHandlers(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	// Otherwise most of the time would be spent on making contexts and workers, and on
	// logging warnings.
	was := log.SetLogger(zap.NewNop())
	f.Cleanup(func() { log.SetLogger(was) })
	worker := newFuzzWorker(f)
	f.Cleanup(func() { worker.end(f) })
	fuzztest.Run(f, func(t *testing.T, b []byte) { worker.play(t, b) })
}
