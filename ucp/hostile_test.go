package ucp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// What a peer sends is not to be trusted. These tests call the handlers with
// messages that no peer in its right mind sends: each is refused or dropped,
// counted, and changes nothing else.

// victim is a worker with an endpoint to itself.
type victim struct {
	testing.TB
	*Worker
	ep *Endpoint
}

func newVictim(t testing.TB, settings ...string) *victim {
	t.Helper()
	log := logtest.Watch(t)
	log.Allow("too many endpoints opened by peers")
	log.Allow("no way back to a peer")
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	settings = append([]string{"TLS", "self", "MAX_UNEXP_BYTES", "1m"}, settings...)
	for i := 0; i < len(settings); i += 2 {
		if err := cfg.Modify(settings[i], settings[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	ctx, err := NewContext(ContextParams{Features: FeatureTag}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ctx.NewWorker(WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	v := &victim{TB: t, Worker: w}
	if v.ep, err = w.NewEndpoint(EndpointParams{Address: w.address}); err != nil {
		t.Fatal(err)
	}
	return v
}

// handlers are the entries for messages of peers.
func (v *victim) handlers() map[string]uct.AMHandler {
	w := v.Worker
	return map[string]uct.AMHandler{
		"wireup":     w.onWireup,
		"eager only": w.onEagerOnly, "eager first": w.onEagerFirst, "eager middle": w.onEagerMiddle,
		"sync only": w.onEagerSyncOnly, "sync first": w.onEagerSyncFirst, "sync ack": w.onEagerSyncAck,
		"rts": w.onRndvRTS, "rtr": w.onRndvRTR, "data": w.onRndvData, "ats": w.onRndvATS, "atp": w.onRndvATP,
	}
}

// exchange sends messages of all kinds to itself and checks them.
func (v *victim) exchange() {
	v.Helper()
	for i, n := range []int{0, 8, 5000, 100_000, 1 << 20} {
		src := bytes.Repeat([]byte{byte(i + 1)}, n)
		buf := make([]byte, n)
		recv, err := v.TagRecv(0x600D, FullMask, buf, nil)
		if err != nil || recv == nil {
			v.Fatalf("receive: %v, %v", recv, err)
		}
		send, err := v.ep.TagSendSync(0x600D, src, nil)
		if err != nil {
			v.Fatal(err)
		}
		for range 10_000 {
			if recv.Done() && send.Done() {
				break
			}
			v.Progress()
		}
		if err := recv.Err(); err != nil {
			v.Fatalf("%d bytes: receive: %v", n, err)
		}
		if err := send.Err(); err != nil {
			v.Fatalf("%d bytes: send: %v", n, err)
		}
		if !bytes.Equal(buf, src) {
			v.Fatalf("%d bytes: wrong message", n)
		}
		recv.Free()
		send.Free()
	}
}

// refused checks that a message is an error of the sender, and counted.
func (v *victim) refused(what string, err error) {
	v.Helper()
	if err == nil {
		v.Errorf("%s: accepted", what)
	}
	if v.stats.Malformed == 0 {
		v.Errorf("%s: not counted", what)
	}
	v.stats.Malformed = 0
}

// dropped checks that a message for something that is gone is ignored, and
// counted.
func (v *victim) dropped(what string, err error) {
	v.Helper()
	if err != nil {
		v.Errorf("%s: %v", what, err)
	}
	if v.stats.Dropped == 0 {
		v.Errorf("%s: not counted", what)
	}
	v.stats.Dropped = 0
}

// TestHostileLengths: every handler takes messages of any length, of zeros, ones
// and others.
func TestHostileLengths(t *testing.T) {
	v := newVictim(t)
	for name, h := range v.handlers() {
		for n := range 120 {
			for _, fill := range []byte{0, 0xFF, 0x01, 0x80} {
				err := h(bytes.Repeat([]byte{fill}, n), nil)
				if n < 8 && err == nil {
					t.Errorf("%s: %d bytes were taken for a message", name, n)
				}
			}
		}
	}
	for r := v.tm.arrived.head; r != nil; r = v.tm.arrived.head {
		v.tm.removeUnexpected(r)
		v.putMessage(r)
	}
	v.exchange()
}

// TestHostileIDs: ids that were never given out find nothing.
func TestHostileIDs(t *testing.T) {
	v := newVictim(t)
	for _, id := range []uint64{0, 1, 2, 3, math.MaxUint64, uint64(v.ep.localID) ^ 2, uint64(v.ep.localID) ^ 1<<40} {
		req, ep := proto.RequestID(id), proto.EndpointID(id)
		v.dropped("sync ack", v.onEagerSyncAck(proto.EagerSyncAck{ReqID: req}.Append(nil), nil))
		v.dropped("rtr", v.onRndvRTR(proto.RndvRTR{SendReqID: req, Size: 8}.Append(nil), nil))
		v.dropped("data", v.onRndvData(proto.RndvData{RecvReqID: req}.Append(nil), nil))
		v.dropped("ats", v.onRndvATS(proto.RndvAck{ReqID: req, HasSize: true}.Append(nil), nil))
		v.dropped("atp", v.onRndvATP(proto.RndvAck{ReqID: req, HasSize: true}.Append(nil), nil))
		v.dropped("rts", v.onRndvRTS(proto.RndvRTS{EpID: ep, ReqID: 5, Size: 100}.Append(nil), nil))
		if id != 0 {
			m := proto.Wireup{Type: proto.WireupReply, SrcEp: 7, DstEp: ep, Address: v.emptyAddress()}
			b, err := m.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			v.dropped("wireup reply", v.onWireup(b, nil))
		}
	}
	// The ids of requests of another kind.
	recv, err := v.TagRecv(1, 0, make([]byte, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	sync := v.syncSend(2)
	id := proto.RequestID(sync.localID)
	v.dropped("rtr for a synchronous send", v.onRndvRTR(proto.RndvRTR{SendReqID: id, Size: 8}.Append(nil), nil))
	v.dropped("data for a synchronous send", v.onRndvData(proto.RndvData{RecvReqID: id}.Append(nil), nil))
	v.dropped("ats for a synchronous send", v.onRndvATS(proto.RndvAck{ReqID: id}.Append(nil), nil))
	v.dropped("atp for a synchronous send", v.onRndvATP(proto.RndvAck{ReqID: id}.Append(nil), nil))
	if recv.Done() || sync.Done() {
		t.Error("an operation was ended")
	}
	v.Cancel(recv)
	v.exchange()
}

// syncSend starts a synchronous send that is not matched: the posted
// receives are put aside meanwhile.
func (v *victim) syncSend(tag Tag) *Request {
	v.Helper()
	posted := v.tm
	v.tm = tagMatcher{}
	req, err := v.ep.TagSendSync(tag, make([]byte, 8), nil)
	if err != nil || req.Done() {
		v.Fatalf("synchronous send: %v, %v", req, err)
	}
	for d := v.tm.arrived.head; d != nil; d = v.tm.arrived.head {
		v.tm.removeUnexpected(d)
		v.putMessage(d)
	}
	v.tm = posted
	return req
}

// offer starts a rendezvous of n bytes that nobody has answered.
func (v *victim) offer(n int) *Request {
	v.Helper()
	req, err := v.ep.TagSend(0xBAD, make([]byte, n), nil)
	if err != nil || req == nil || req.Done() || req.proto != &rndvRTS {
		v.Fatalf("a large send is no offer: %v, %v", req, err)
	}
	for d := v.tm.arrived.head; d != nil; d = v.tm.arrived.head {
		v.tm.removeUnexpected(d)
		v.putMessage(d)
	}
	return req
}

const offerLength = 1 << 20

// TestHostileRTR: nobody is sent more than there is, or the same twice.
func TestHostileRTR(t *testing.T) {
	v := newVictim(t)
	req := v.offer(offerLength)
	id := proto.RequestID(req.localID)
	rtr := func(off, n int) error {
		return v.onRndvRTR(proto.RndvRTR{SendReqID: id, RecvReqID: 99, Size: n, Offset: off}.Append(nil), nil)
	}
	for what, err := range map[string]error{
		"more than the message":   rtr(0, offerLength+1),
		"from behind the message": rtr(offerLength, 1),
		"across the end":          rtr(offerLength-1, 2),
		"far away":                rtr(math.MaxInt-10, 5),
		"nothing, in the middle":  rtr(10, 0),
	} {
		if err == nil || req.Done() {
			t.Errorf("%s: %v, done %v", what, err, req.Done())
		}
	}
	v.refused("parts that are not there", ucs.ErrIO)
	if err := rtr(0, 1000); err != nil {
		t.Fatal(err)
	}
	v.refused("the same part again", rtr(0, 1000))
	v.refused("an overlapping part", rtr(999, 2))
	key := append(proto.RndvRTR{SendReqID: id, Size: 8, Offset: 5000, Address: 1}.Append(nil), 0xFF, 0xFF, 1, 2, 3)
	v.refused("a key that makes no sense", v.onRndvRTR(key, nil))
	for v.Progress() > 0 {
	}
	if req.Done() {
		t.Fatalf("the send is done: %v", req.Err())
	}
	v.stats.Dropped = 0 // the data nobody asked for
	if err := v.onRndvATS(proto.RndvAck{ReqID: id, Status: ucs.ErrCanceled}.Append(nil), nil); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(req.Err(), ucs.ErrCanceled) {
		t.Errorf("the send ended with %v", req.Err())
	}
	v.dropped("a second ats", v.onRndvATS(proto.RndvAck{ReqID: id}.Append(nil), nil))
	v.exchange()
}

// TestHostileParts: a peer that asks for a byte at a time while nothing can be
// sent does not make the list of parts grow for ever.
func TestHostileParts(t *testing.T) {
	v := newVictim(t)
	req := v.offer(offerLength)
	id := proto.RequestID(req.localID)
	req.proto = &rndvBcopy // as if a part was being sent
	accepted := 0
	for ; accepted < 2*maxParts; accepted++ {
		if v.onRndvRTR(proto.RndvRTR{SendReqID: id, Size: 1, Offset: accepted}.Append(nil), nil) != nil {
			break
		}
	}
	if accepted != maxParts || len(req.parts) != maxParts {
		t.Errorf("%d parts were accepted", accepted)
	}
	req.proto = &rndvRTS
}

// fetching is a receive that has asked for data which does not come.
func (v *victim) fetching(buf []byte) *Request {
	v.Helper()
	req, err := v.TagRecv(0xF0, FullMask, buf, nil)
	if err != nil {
		v.Fatal(err)
	}
	rts := proto.RndvRTS{Header: 0xF0, EpID: v.ep.localID, ReqID: 0x1234567, Size: len(buf)}
	if err := v.onRndvRTS(rts.Append(nil), nil); err != nil {
		v.Fatal(err)
	}
	v.stats.Dropped = 0 // the answer to a request that is not there
	if req.Done() || req.proto != &rndvRTR {
		v.Fatal("the receive does not wait for data")
	}
	return req
}

// TestHostileData: data outside the buffer, or twice, is not stored.
func TestHostileData(t *testing.T) {
	v := newVictim(t)
	mem := make([]byte, 100+8)
	buf, fence := mem[:100:100], mem[100:]
	req := v.fetching(buf)
	data := func(off, n int) error {
		b := proto.RndvData{RecvReqID: proto.RequestID(req.localID), Offset: off}.Append(nil)
		return v.onRndvData(append(b, bytes.Repeat([]byte{0xEE}, n)...), nil)
	}
	for what, at := range map[string][2]int{
		"across the end": {96, 8}, "behind the end": {100, 1}, "far away": {math.MaxInt - 100, 8}, "too much": {0, 101},
	} {
		v.refused(what, data(at[0], at[1]))
	}
	if err := data(0, 40); err != nil {
		t.Fatal(err)
	}
	v.refused("the same again", data(0, 40))
	v.refused("overlapping", data(39, 2))
	if !bytes.Equal(fence, make([]byte, 8)) || !bytes.Equal(buf[40:], make([]byte, 60)) {
		t.Error("memory was written that no data was accepted for")
	}
	if err := data(60, 40); err != nil || req.Done() {
		t.Fatalf("%v, done %v", err, req.Done())
	}
	if err := data(40, 20); err != nil || !req.Done() || req.Err() != nil {
		t.Fatalf("%v, done %v, %v", err, req.Done(), req.Err())
	}
	if !bytes.Equal(buf, bytes.Repeat([]byte{0xEE}, 100)) {
		t.Error("the data is wrong")
	}
	id := req.localID
	v.dropped("data after the end", v.onRndvData(proto.RndvData{RecvReqID: proto.RequestID(id)}.Append(nil), nil))
	req.Free()
	v.exchange()
}

// TestHostileATP: acknowledgements with wrong sizes or statuses end a receive at
// most once.
func TestHostileATP(t *testing.T) {
	for _, ack := range []proto.RndvAck{
		{Size: 0, HasSize: true},
		{Size: math.MaxInt, HasSize: true},
		{HasSize: false},
		{Status: ucs.ErrIO},
		{Status: ucs.InProgress},
		{Status: -128},
	} {
		v := newVictim(t)
		req := v.fetching(make([]byte, 100))
		ack.ReqID = proto.RequestID(req.localID)
		for range 3 {
			if err := v.onRndvATP(ack.Append(nil), nil); err != nil {
				t.Errorf("%+v: %v", ack, err)
			}
		}
		ended := ack.Size != 0 || !ack.HasSize
		if req.Done() != ended {
			t.Errorf("%+v: done %v", ack, req.Done())
		}
		if !ended {
			v.ep.destroy(ucs.ErrCanceled)
		}
		if bad := ack.Status != ucs.OK; ended && bad && req.Err() == nil {
			t.Errorf("%+v: success", ack)
		}
	}
}

// TestHostileFragments: fragments that overlap, repeat or lie outside the message
// are refused; a claimed length costs nothing.
func TestHostileFragments(t *testing.T) {
	v := newVictim(t)
	first := func(id, total, n int) error {
		b := proto.EagerFirst{Tag: 0xF1, TotalLen: total, MsgID: proto.MessageID(id)}.Append(nil)
		return v.onEagerFirst(append(b, make([]byte, n)...), nil)
	}
	middle := func(id, off, n int) error {
		b := proto.EagerMiddle{MsgID: proto.MessageID(id), Offset: off}.Append(nil)
		return v.onEagerMiddle(append(b, make([]byte, n)...), nil)
	}
	if err := first(1, 100, 10); err != nil {
		t.Fatal(err)
	}
	v.refused("a second first fragment", first(1, 100, 10))
	v.refused("another length", first(1, 50, 10))
	v.refused("a repeated fragment", middle(1, 0, 10))
	v.refused("an overlapping fragment", middle(1, 9, 5))
	v.refused("a fragment across the end", middle(1, 95, 6))
	v.refused("a fragment far away", middle(1, math.MaxInt-100, 6))

	// The first fragment comes last, and the others do not fit its length.
	if err := middle(2, 50, 10); err != nil {
		t.Fatal(err)
	}
	v.refused("a length that is too short", first(2, 40, 10))
	v.refused("a payload that is longer than the length", first(3, 5, 6))

	// Lengths are believed, not allocated.
	held := v.Stats().UnexpectedBytes
	for i := range 50 {
		if err := first(100+i, math.MaxInt, 10); err != nil {
			t.Fatal(err)
		}
	}
	if grown := v.Stats().UnexpectedBytes - held; grown > 50*1024 {
		t.Errorf("50 small fragments of huge messages hold %d bytes", grown)
	}
	// The first in line is the one of 100 bytes.
	req, err := v.TagRecv(0xF1, FullMask, make([]byte, 100), nil)
	if err != nil || req == nil {
		t.Fatal(req, err)
	}
	req, err = v.TagRecv(0xF1, FullMask, make([]byte, 10), nil)
	if req != nil || !errors.Is(err, ucs.ErrMessageTruncated) {
		t.Errorf("receiving a huge message: %v, %v", req, err)
	}

	// Negative, as an int.
	b := proto.EagerFirst{Tag: 0xF1, MsgID: 7}.Append(nil)
	binary.LittleEndian.PutUint64(b[8:], 1<<63)
	v.refused("a length of 2^63", v.onEagerFirst(b, nil))
	v.exchange()
}

// TestHostileUnexpected: whatever kind of message a peer sends that nobody
// receives, memory stops growing at the limit, and goes on when there is room.
func TestHostileUnexpected(t *testing.T) {
	const limit = 1 << 20
	for name, message := range map[string]func(v *victim, i int) error{
		"empty": func(v *victim, _ int) error { return v.onEagerOnly(make([]byte, 8), nil) },
		"large": func(v *victim, _ int) error { return v.onEagerOnly(make([]byte, 5000), nil) },
		"offers": func(v *victim, _ int) error {
			return v.onRndvRTS(proto.RndvRTS{EpID: v.ep.localID, ReqID: 1, Size: math.MaxInt}.Append(nil), nil)
		},
		"orphan fragments": func(v *victim, i int) error {
			b := proto.EagerMiddle{MsgID: proto.MessageID(i), Offset: 8}.Append(nil)
			return v.onEagerMiddle(append(b, make([]byte, 100)...), nil)
		},
		"one message for ever": func(v *victim, i int) error {
			b := proto.EagerMiddle{MsgID: 1, Offset: i * 100}.Append(nil)
			return v.onEagerMiddle(append(b, make([]byte, 100)...), nil)
		},
		"fragments without bytes": func(v *victim, i int) error {
			if i == limit {
				return ucs.ErrExceedsLimit // there is no end to them, and no need for one
			}
			return v.onEagerMiddle(proto.EagerMiddle{MsgID: 1, Offset: i}.Append(nil), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			i := 0
			for ; i <= limit; i++ {
				if err := message(v, i); err != nil {
					if !errors.Is(err, ucs.ErrExceedsLimit) {
						t.Fatal(err)
					}
					break
				}
				if held := v.Stats().UnexpectedBytes; held > limit+64<<10 {
					t.Fatalf("%d bytes are held after %d messages", held, i)
				}
			}
			if i > limit {
				t.Fatal("no limit")
			}
			v.cancelReceives()
			v.dropMessages()
			if held := v.Stats().UnexpectedBytes; held != 0 {
				t.Errorf("%d bytes are held by nothing", held)
			}
			v.exchange()
		})
	}
}

// TestHostileAssemblies: the number of messages in parts is bounded too.
func TestHostileAssemblies(t *testing.T) {
	v := newVictim(t, "MAX_UNEXP_BYTES", "inf")
	for i := 0; ; i++ {
		if i > maxAssemblies {
			t.Fatal("no limit")
		}
		if v.onEagerMiddle(proto.EagerMiddle{MsgID: proto.MessageID(i)}.Append(nil), nil) != nil {
			break
		}
	}
	v.cancelReceives()
	v.exchange()
}

// TestHostileWireup: strangers open endpoints up to the limit, and nothing is
// remembered about those over it.
func TestHostileWireup(t *testing.T) {
	const limit = 10
	v := newVictim(t, "MAX_UNEXP_EPS", "10")
	request := func(uuid uint64, sn uint16, src proto.EndpointID) error {
		addr := v.described
		addr.UUID = uuid
		m := proto.Wireup{Type: proto.WireupRequest, ConnSN: sn, SrcEp: src, Address: addr}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.onWireup(b, nil)
	}
	for i := range 1000 {
		err := request(uint64(0xABC000+i), uint16(i), proto.EndpointID(2*i+1))
		if (i < limit) != (err == nil) {
			t.Fatalf("stranger %d: %v", i, err)
		}
	}
	if len(v.peers) != limit || v.unexpected != limit {
		t.Errorf("%d strangers are remembered, %d endpoints counted", len(v.peers), v.unexpected)
	}
	before := v.Stats().Endpoints
	for range 10 { // the same again finds what is there
		if err := request(0xABC000, 0, 1); err != nil {
			t.Error(err)
		}
	}
	v.dropped("another endpoint under a number that is taken", request(0xABC000, 0, 33))
	v.dropped("a request without an endpoint", request(0xABC000, 0, 0))
	if after := v.Stats().Endpoints; after != before {
		t.Errorf("%d endpoints, before %d", after, before)
	}
	v.endpoints.each(func(ep *Endpoint) {
		if ep != v.ep {
			ep.destroy(ucs.ErrCanceled)
		}
	})
	if v.unexpected != 0 || len(v.peers) != 0 {
		t.Errorf("%d unexpected endpoints and %d peers are left", v.unexpected, len(v.peers))
	}
	for i := range 2 * limit { // there is room again
		if err := request(uint64(0xDEF000+i), 0, 1); (i < limit) != (err == nil) {
			t.Fatalf("stranger %d: %v", i, err)
		}
	}
	v.exchange()
}

// TestHostileWireupTypes: messages of types that are not spoken, and for
// endpoints that do not exist, do nothing.
func TestHostileWireupTypes(t *testing.T) {
	v := newVictim(t)
	for kind := range 256 {
		m := proto.Wireup{Type: proto.WireupType(kind), SrcEp: 5, DstEp: 0xFFFF, Address: v.emptyAddress()}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.onWireup(b, nil); err != nil && !errors.Is(err, ucs.ErrIO) {
			t.Errorf("type %d: %v", kind, err)
		}
	}
	for range 1000 {
		v.Progress()
	}
	if v.ep.err != nil || v.Stats().Endpoints != 1 {
		t.Errorf("endpoint %v, counters %+v", v.ep.err, v.Stats())
	}
	v.exchange()
}

// TestEpCheck: a peer that asks for an endpoint which is gone is told so, and
// its end fails with ConnectionReset. One that is there is not disturbed.
func TestEpCheck(t *testing.T) {
	v := newVictim(t)
	p := EndpointParams{Address: v.address, Flags: EndpointNoLoopback}
	ep, err := v.NewEndpoint(p)
	if err != nil {
		t.Fatal(err)
	}
	check := func(dst proto.EndpointID) {
		m := proto.Wireup{Type: proto.WireupEpCheck, SrcEp: ep.localID, DstEp: dst, Address: v.described}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.onWireup(b, nil); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			v.Progress()
		}
	}
	check(v.ep.localID)
	if ep.err != nil {
		t.Fatal(ep.err)
	}
	check(0x77777777)
	if !errors.Is(ep.err, ucs.ErrConnectionReset) {
		t.Errorf("the endpoint's error is %v", ep.err)
	}
	if n := v.Stats().Endpoints; n != 2 || v.unexpected != 0 {
		t.Errorf("%d endpoints, %d of them opened by peers", n, v.unexpected)
	}
	v.exchange()
}
