package ucp

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// script is a list of messages as the fuzzer sees them. Each is
//
//	handler   1 byte
//	patch     1 byte: which live id is put into the message, and where
//	length    1 byte
//	message   length bytes
//
// Without the live ids a fuzzer would never get past the first look at a table.
type script []byte

// step is one message of a script.
func step(handler int, patch byte, message []byte) []byte {
	return append([]byte{byte(handler), patch, byte(len(message))}, message...)
}

// The places of a live id, in the upper bits of a patch; its kind is in the lower
// ones.
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

// fuzzTarget is a worker with an operation of every kind under way.
type fuzzTarget struct {
	*victim
	handlers []uct.AMHandler
	live     []uint64 // ids that peers may know
	open     []*Request
	memory   *target // that peers may access
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
)

// fuzzEndpointAt is where messages have the endpoint's id that have an address,
// too, which a patch is for.
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

func newFuzzTarget(t testing.TB) *fuzzTarget {
	v := newVictim(t, "MAX_UNEXP_EPS", "20")
	f := &fuzzTarget{victim: v, handlers: []uct.AMHandler{
		v.onWireup, v.onEagerOnly(), v.onEagerFirst, v.onEagerMiddle, v.onEagerSyncOnly, v.onEagerSyncFirst,
		v.onEagerSyncAck, v.onRndvRTS, v.onRndvRTR, v.onRndvData, v.onRndvATS, v.onRndvATP,
		v.onPut, v.onGetReq, v.onGetRep, v.onAtomicReq, v.onAtomicRep, v.onCompletion,
	}}
	offer := v.offer(offerLength)
	sync := v.syncSend(0x51)
	fetch := v.fetching(make([]byte, 300))
	f.memory = v.memory(200, ProtAll)
	get, amo := v.waiting(getMessages{}, make([]byte, 100)), v.waiting(atomicFetch{}, make([]byte, 8))
	f.open = []*Request{offer, sync, fetch, get, amo}
	f.live = []uint64{
		uint64(v.ep.localID), offer.localID, sync.localID, fetch.localID, 0x1111,
		f.memory.addr, get.localID, amo.localID,
	}
	first := proto.EagerFirst{Tag: 0x52, TotalLen: 1000, MsgID: 0x1111}.Append(nil)
	if err := v.onEagerFirst(nil, append(first, 1, 2, 3), nil); err != nil {
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

// play hands the messages of a script to the handlers.
func (f *fuzzTarget) play(s script) {
	for len(s) >= 3 {
		h, patch, n := int(s[0])%len(f.handlers), s[1], min(int(s[2]), len(s)-3)
		message := append([]byte(nil), s[3:3+n]...)
		s = s[3+n:]
		if at := fuzzEndpointAt[h]; at > 0 && patch>>4 != 0 && at+8 <= len(message) {
			binary.LittleEndian.PutUint64(message[at:], f.live[liveEndpoint])
		}
		if at := patchOffsets[int(patch>>4)%len(patchOffsets)]; at >= 0 && at+8 <= len(message) {
			binary.LittleEndian.PutUint64(message[at:], f.live[int(patch&0xF)%len(f.live)])
		}
		f.handlers[h](nil, message, nil)
		f.Progress()
	}
}

// finish ends what is under way and checks what must hold whatever was played.
func (f *fuzzTarget) finish() {
	for range 300 {
		f.Progress()
	}
	f.memory.untouched(f.TB)
	if f.rma.serving != 0 {
		f.Errorf("%d answers are still under way", f.rma.serving)
	}
	if held := f.Stats().UnexpectedBytes; held < 0 || held > 2<<20 {
		f.Errorf("%d bytes are held", held)
	}
	for _, req := range f.open {
		f.Cancel(req)
	}
	for req := f.tag.wild.head; req != nil; req = f.tag.wild.head {
		f.Cancel(req)
	}
	// The endpoint may have been told that its peer is gone.
	if f.ep.err != nil {
		f.ep.destroy(ucs.ErrCanceled)
		ep, err := f.NewEndpoint(EndpointParams{Address: f.address})
		if err != nil {
			f.Fatal(err)
		}
		f.ep = ep
	}
	f.exchange()
	for i, req := range f.open {
		if req.Done() && req.Err() == ucs.InProgress {
			f.Errorf("request %d is done and in progress", i)
		}
	}
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
		step(fuzzRTR, patchAt0+liveOffer, proto.RndvRTR{RecvReqID: 8, Size: offerLength}.Append(nil)),
		step(fuzzData, patchAt0+liveFetch, with(proto.RndvData{}.Append(nil))),
		step(fuzzATS, patchAt0+liveOffer, proto.RndvAck{Size: offerLength, HasSize: true}.Append(nil)),
		step(fuzzATP, patchAt0+liveFetch, proto.RndvAck{Size: 300, HasSize: true}.Append(nil)),
		step(fuzzPut, patchAt0+liveMemory, with(proto.Put{}.Append(nil))),
		step(fuzzGetReq, patchAt0+liveMemory, proto.GetReq{Length: 200, ReqID: 9}.Append(nil)),
		step(fuzzGetRep, patchAt0+liveGet, with(proto.GetRep{Offset: 5}.Append(nil))),
		step(fuzzAtomicReq, patchAt0+liveMemory, proto.AtomicReq{Size: 8, Op: uct.AtomicCSwap, ReqID: 9}.Append(nil)),
		step(fuzzAtomicReq, patchAt0+liveMemory, proto.AtomicReq{Size: 4, Value: 1}.Append(nil)),
		step(fuzzAtomicRep, patchAt0+liveAtomic, proto.AtomicRep{Size: 8}.Append(nil)),
		step(fuzzCompletion, patchAt0+liveEndpoint, proto.Cmpl{}.Append(nil)),
		step(fuzzWireup, 0, wireup(proto.Wireup{Type: proto.WireupRequest, SrcEp: 5, Address: none})),
		step(fuzzWireup, patchAt12+liveEndpoint, wireup(proto.Wireup{Type: proto.WireupReply, SrcEp: 5, Address: none})),
		step(fuzzWireup, patchAt12+liveEndpoint, wireup(proto.Wireup{Type: proto.WireupEpRemoved, SrcEp: 5, Address: none})),
		step(fuzzWireup, 0, wireup(proto.Wireup{Type: proto.WireupEpCheck, SrcEp: 5, DstEp: 7, Address: none})),
	}
	var all script
	for _, s := range list {
		all = append(all, s...)
	}
	return append(list, all)
}

// FuzzHandlers feeds a worker with messages of peers. Nothing may panic, memory
// stays within its limits, and afterwards the worker does its work.
func FuzzHandlers(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		target := newFuzzTarget(t)
		target.play(b)
		target.finish()
	})
}
