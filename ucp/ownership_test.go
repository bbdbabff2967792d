package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestForeignMessages checks that messages for operations with a peer are accepted from that peer
// only.
func TestForeignMessages(t *testing.T) {
	v, peer, evil := strangers(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	own, stranger := newLocated(loop, true), newLocated(loop, true)
	v.asks(own, peer.uuid, 0, peersID, &peer.own.described)
	v.asks(stranger, peer.uuid, 0, evilID, &evil.own.described) // with the peer's uuid
	silent := newLocated("192.0.2.1:4000", false)               // never sends an address
	also := newLocated(loop, true)                              // a second connection of the peer

	buf := make([]byte, 1000)
	recv, err := v.TagRecv(0xF0, FullMask, buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	rts := proto.RndvRTS{Header: 0xF0, EpID: ep.localID, ReqID: 0x1235, Size: len(buf)}
	say := func(by *located, h uct.AMHandler, b []byte) (refused bool) {
		t.Helper()
		before := v.stats.Refused
		_ = h(&by.Source, b, nil)
		return v.stats.Refused > before
	}
	others := []*located{stranger, silent, silent}
	for _, by := range others {
		if !say(by, v.rndv.onRndvRTS, rts.Append(nil)) {
			t.Error("an offer of somebody else's is taken")
		}
	}
	if say(own, v.rndv.onRndvRTS, rts.Append(nil)) || !recv.is(kindAsk) {
		t.Fatal("the peer's offer is not taken")
	}
	sent := func() bool { return ep.lanes[0].uct.Flush(uct.FlushLocal, nil) == nil }
	until(t, "answer on its way", sent, v, peer)
	id := proto.RequestID(recv.localID)
	data := append(proto.RndvData{RecvReqID: id}.Append(nil), 0xEE)
	atp := proto.RndvAck{ReqID: id, Size: len(buf), HasSize: true}.Append(nil)
	for _, by := range others {
		for name, m := range map[string]struct {
			fn uct.AMHandler
			b  []byte
		}{"data": {v.rndv.onRndvData, data}, "atp": {v.rndv.onRndvATP, atp}} {
			if !say(by, m.fn, m.b) || recv.Done() || buf[0] != 0 {
				t.Errorf("%s of somebody else's is taken", name)
			}
		}
	}
	if say(also, v.rndv.onRndvData, data) || buf[0] != 0xEE {
		t.Error("the peer's data is not taken over another connection")
	}
	if say(also, v.rndv.onRndvATP, atp) || !recv.Done() {
		t.Error("the peer's end is not taken")
	}
	recv.Free()

	send, err := ep.TagSend(0xBAD, make([]byte, 1<<20), nil)
	if err != nil || !send.is(kindOffer) {
		t.Fatalf("a large send is no offer: %v, %v", send, err)
	}
	id = proto.RequestID(send.localID)
	ats := proto.RndvAck{ReqID: id, HasSize: true}.Append(nil)
	rtr := proto.RndvRTR{SendReqID: id, RecvReqID: 1, Size: 1 << 20}.Append(nil)
	sync, err := ep.TagSendSync(0xBAD, make([]byte, 8), nil)
	if err != nil || sync == nil {
		t.Fatal(err)
	}
	until(t, "offer on its way", sent, v, peer)
	ack := proto.EagerSyncAck{ReqID: proto.RequestID(sync.localID)}.Append(nil)
	for _, by := range others {
		for name, m := range map[string]struct {
			fn uct.AMHandler
			b  []byte
		}{"ats": {v.rndv.onRndvATS, ats}, "rtr": {v.rndv.onRndvRTR, rtr}, "sync ack": {v.tag.onEagerSyncAck, ack}} {
			if !say(by, m.fn, m.b) || send.Done() || !send.is(kindOffer) || sync.Done() {
				t.Errorf("%s of somebody else's is taken", name)
			}
		}
	}
	if say(own, v.tag.onEagerSyncAck, ack) || !sync.Done() || say(own, v.rndv.onRndvATS, ats) || !send.Done() {
		t.Error("the peer's answers are not taken")
	}
	send.Free()
	sync.Free()

	mem := make([]byte, 64)
	m, err := v.ctx.Register(mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	put := append(proto.Put{Address: word.Address(mem), EpID: ep.localID}.Append(nil), 0xEE)
	for _, by := range others {
		if !say(by, v.rma.onPut, put) || mem[0] != 0 {
			t.Error("a put in the name of the peer is carried out")
		}
	}
	if say(own, v.rma.onPut, put) || mem[0] != 0xEE {
		t.Error("the peer's put is not carried out")
	}
	if silent.asked > 0 {
		t.Error("processes are looked up for somebody on another machine")
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// TestForeignDrops checks that a connection of another worker is dropped if it uses an id that only
// the peer has got. Messages of a connection whose owner cannot be determined are ignored under
// CHECK_SOURCE=y, and late messages are ignored.
func TestForeignDrops(t *testing.T) {
	for _, check := range []string{"y", "try"} {
		open := func() *targetWorker { return newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", check) }
		v, peer, evil := open(), open(), open()
		evil.log.Allow("message dropped: it names an operation with another peer")
		ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
		if err != nil {
			t.Fatal(err)
		}
		own := newLocated(loop, true)
		v.asks(own, peer.uuid, 0, peersID, &peer.own.described)
		claims, other := newLocated(loop, true), newLocated(loop, true)
		v.asks(claims, peer.uuid, 0, evilID, &evil.own.described) // claims to be the peer
		v.asks(other, evil.uuid, 0, evilID+2, &evil.own.described)
		send, err := ep.TagSend(0xBAD, make([]byte, 1<<20), nil)
		if err != nil || !send.is(kindOffer) {
			t.Fatalf("a large send is no offer: %v, %v", send, err)
		}
		until(t, "offer on its way", func() bool { return ep.lanes[0].uct.Flush(uct.FlushLocal, nil) == nil }, v, peer)
		ats := proto.RndvAck{ReqID: proto.RequestID(send.localID), HasSize: true}.Append(nil)
		rts := proto.RndvRTS{Header: 0xF0, EpID: ep.localID, ReqID: 0x1235, Size: 100}.Append(nil)
		for _, c := range []struct {
			name string
			by   *located
			drop bool
		}{{"another worker", other, true}, {"who says that he is the peer", claims, false}} {
			before := v.stats.Refused
			_ = v.rndv.onRndvATS(&c.by.Source, ats, nil)
			if send.Done() || v.stats.Refused == before || (c.by.dropped != nil) != c.drop {
				t.Errorf("CHECK_SOURCE=%s, %s: taken %v, dropped: %v", check, c.name, send.Done(), c.by.dropped)
			}
		}
		offers := newLocated(loop, true)
		v.asks(offers, evil.uuid, 1, evilID+4, &evil.own.described)
		if _ = v.rndv.onRndvRTS(&offers.Source, rts, nil); offers.dropped == nil {
			t.Errorf("CHECK_SOURCE=%s: an offer in the name of another", check)
		}
		second := newLocated("192.0.2.1:4000", false) // another device of the peer, or an attacker
		_ = v.rndv.onRndvATS(&second.Source, ats, nil)
		if taken := send.Done(); taken != (check == "try") || second.dropped != nil {
			t.Errorf("CHECK_SOURCE=%s, who knows the id: taken %v, dropped: %v", check, taken, second.dropped)
		}
		if !send.Done() {
			_ = v.rndv.onRndvATS(&own.Source, ats, nil)
		}
		send.Free()
		late := newLocated(loop, true)
		v.asks(late, evil.uuid, 2, evilID+6, &evil.own.described)
		_ = v.rndv.onRndvATS(&late.Source, ats, nil)
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
		_ = v.rndv.onRndvRTS(&late.Source, rts, nil)
		_ = v.rndv.onRndvATS(&own.Source, ats, nil)
		if late.dropped != nil || own.dropped != nil {
			t.Errorf("late messages: dropped %v, %v", late.dropped, own.dropped)
		}
	}
}

// TestMemoryOfPeers checks that memory mapped for some peers cannot be accessed by other peers that
// know its address.
func TestMemoryOfPeers(t *testing.T) {
	v, peer, other := strangers(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	second, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := v.NewEndpoint(EndpointParams{Address: other.own.address})
	if err != nil {
		t.Fatal(err)
	}
	for _, ep := range []*Endpoint{ep, second, stranger} {
		ep.w.wireups.connected(ep, 1)
	}
	mem := make([]byte, 64)
	m, err := v.ctx.MemMap(MemMapParams{Buffer: mem, Peers: []*Endpoint{ep}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(ep *Endpoint) bool {
		mem[0] = 0
		b := append(proto.Put{Address: word.Address(mem), EpID: ep.localID}.Append(nil), 0xEE)
		err := v.rma.onPut(nil, b, nil)
		if err == nil != (mem[0] == 0xEE) {
			t.Errorf("%v, and the memory has %#x", err, mem[0])
		}
		return err == nil
	}
	if !put(ep) || !put(second) {
		t.Error("the peer is not let in")
	}
	if put(stranger) || put(v.ep) {
		t.Error("somebody else is let in")
	}
	if err := m.Allow(stranger); err != nil || !put(stranger) || put(v.ep) {
		t.Errorf("who was allowed later: %v", err)
	}
	if err := m.Allow(v.ep); err != nil || !put(v.ep) {
		t.Errorf("the worker itself: %v", err)
	}
	key, err := m.PackRkey()
	if k, _, parsed := proto.ParseRkey(key); err != nil || parsed != nil || k.MDMap != 0 {
		t.Errorf("key % x, %v", key, err)
	}
	for _, ep := range []*Endpoint{ep, second, stranger} {
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	}
	if err := m.Allow(ep); err == nil {
		t.Error("a closed endpoint is allowed")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	open, err := v.ctx.Register(mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	if open.Allow(v.ep) == nil {
		t.Error("memory that is everybody's is limited")
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	nobody, err := v.ctx.MemMap(MemMapParams{Length: 4096, Flags: MemMapAllocate, Peers: []*Endpoint{}})
	if err != nil {
		t.Fatal(err)
	}
	if nobody.region.Rkey != nil || nobody.region.MapMD != 0 {
		t.Error("messages carry a key of memory that is for nobody")
	}
	if err := nobody.Close(); err != nil {
		t.Error(err)
	}
}
