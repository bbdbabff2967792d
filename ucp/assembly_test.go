package ucp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// fragments cuts a message into packets with offsets; the first begins at 0.
func fragments(t *rapid.T, message []byte) (offsets []int, parts [][]byte) {
	for off := 0; off < len(message); {
		n := rapid.IntRange(1, max(1, len(message)/3)).Draw(t, "fragment")
		n = min(n, len(message)-off)
		offsets, parts = append(offsets, off), append(parts, message[off:off+n])
		off += n
	}
	return offsets, parts
}

// TestAssemblyModel: the fragments of several messages arrive in any order, and
// receives are posted before, between or after them. Each receive gets its message.
func TestAssemblyModel(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		v := newTarget(outer, "MAX_UNEXP_BYTES", "inf")
		defer v.closeNow()
		type packet struct {
			message, offset int
			payload         []byte
		}
		type transfer struct {
			src, dst []byte
			req      *Request
			sync     bool
		}
		var packets []packet
		var list []*transfer
		for k := range rapid.IntRange(1, 4).Draw(t, "messages") {
			x := &transfer{sync: rapid.Bool().Draw(t, "sync")}
			x.src = rapid.SliceOfN(rapid.Byte(), 2, 200).Draw(t, "message")
			x.dst = make([]byte, len(x.src))
			list = append(list, x)
			offsets, parts := fragments(t, x.src)
			if len(parts) == 1 { // a message in one packet is not assembled
				offsets, parts = []int{0, 1}, [][]byte{x.src[:1], x.src[1:]}
			}
			for i := range parts {
				packets = append(packets, packet{k, offsets[i], parts[i]})
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		rng.Shuffle(len(packets), func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
		post := func(k int) {
			if list[k].req != nil {
				return
			}
			var err error
			list[k].req, err = v.TagRecv(Tag(k), FullMask, list[k].dst, &RequestParams{Flags: OpNoImmediate})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range packets {
			if k := rng.IntN(2 * len(list)); k < len(list) {
				post(k)
			}
			x := list[p.message]
			id := proto.MessageID(1000 + p.message)
			var err error
			switch first := (proto.EagerFirst{Tag: proto.Tag(p.message), TotalLen: len(x.src), MsgID: id}); {
			case p.offset > 0:
				err = v.tag.onEagerMiddle(nil, append(proto.EagerMiddle{MsgID: id, Offset: p.offset}.Append(nil), p.payload...), nil)
			case x.sync:
				h := proto.EagerSyncFirst{EagerFirst: first, EpID: v.ep.localID, ReqID: 0x777}
				err = v.tag.onEagerSyncFirst(nil, append(h.Append(nil), p.payload...), nil)
			default:
				err = v.tag.onEagerFirst(nil, append(first.Append(nil), p.payload...), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		synced := 0
		for k, x := range list {
			post(k)
			if !x.req.Done() || x.req.Err() != nil || !bytes.Equal(x.dst, x.src) {
				t.Fatalf("message %d: done %v, %v, %x, want %x", k, x.req.Done(), x.req.Err(), x.dst, x.src)
			}
			if x.sync {
				synced++
			}
		}
		if got := v.stats.SyncAcks; got != uint64(synced) {
			t.Fatalf("%d acknowledgements for %d synchronous messages", got, synced)
		}
		if len(v.eager.assemblies) != 0 || v.Stats().UnexpectedBytes != 0 {
			t.Fatalf("%d assemblies and %d bytes are left", len(v.eager.assemblies), v.Stats().UnexpectedBytes)
		}
	})
}

// closeNow closes the worker before its test ends.
func (v *targetWorker) closeNow() {
	v.Helper()
	if err := v.Worker.Close(); err != nil {
		v.Error(err)
	}
}

// TestRendezvousInParts: a receiver with several lanes, as in C UCX, may request a
// message in parts and in any order, and the send ends with the last part.
func TestRendezvousInParts(t *testing.T) {
	v := newTarget(t)
	src := make([]byte, offerLength)
	for i := range src {
		src[i] = byte(i>>8 + i)
	}
	send, err := v.ep.TagSend(0xBAD, src, nil)
	if err != nil || send == nil || !send.is(kindOffer) {
		t.Fatalf("a large send is no offer: %v, %v", send, err)
	}
	v.tag.dropMessages()
	id := proto.RequestID(send.localID)
	parts := [][2]int{{500_000, 100_000}, {0, 300_000}, {600_000, offerLength - 600_000}, {300_000, 200_000}}
	for i, p := range parts {
		if send.Done() {
			t.Fatalf("done after %d parts", i)
		}
		buf := make([]byte, p[1])
		recv := v.fetching(buf) // stands for the receiver's request of this part
		rtr := proto.RndvRTR{SendReqID: id, RecvReqID: proto.RequestID(recv.localID), Offset: p[0], Size: p[1]}
		if err := v.rndv.onRndvRTR(nil, rtr.Append(nil), nil); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			v.Progress()
		}
		if !recv.Done() || recv.Err() != nil || !bytes.Equal(buf, src[p[0]:p[0]+p[1]]) {
			t.Fatalf("part %d: done %v, %v", i, recv.Done(), recv.Err())
		}
	}
	if !send.Done() || send.Err() != nil {
		t.Fatalf("send: done %v, %v", send.Done(), send.Err())
	}
	v.exchange()
}

// TestRendezvousForeignForms: the worker accepts the forms of rendezvous messages
// that only releases of C UCX send.
func TestRendezvousForeignForms(t *testing.T) {
	key := func() []byte { k := proto.NewRkey(ucs.MemoryHost.Wire()); return k.Append(nil) }()
	t.Run("an offer with an address and a key", func(t *testing.T) {
		v := newTarget(t)
		buf := make([]byte, 100)
		recv, err := v.TagRecv(1, FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		rts := proto.RndvRTS{Header: 1, EpID: v.ep.localID, ReqID: 5, Address: 0x1000, Size: 100}
		if err := v.rndv.onRndvRTS(nil, append(rts.Append(nil), key...), nil); err != nil {
			t.Fatal(err)
		}
		data := append(proto.RndvData{RecvReqID: proto.RequestID(recv.localID)}.Append(nil), bytes.Repeat([]byte{7}, 100)...)
		if err := v.rndv.onRndvData(nil, data, nil); err != nil || recv.Err() != nil || buf[99] != 7 {
			t.Errorf("%v, %v", err, recv.Err())
		}
	})
	t.Run("a request for all that does not say so", func(t *testing.T) { // 1.13.1, for scattered memory
		v := newTarget(t)
		send, recv := v.offer(offerLength), v.fetching(make([]byte, offerLength))
		rtr := proto.RndvRTR{SendReqID: proto.RequestID(send.localID), RecvReqID: proto.RequestID(recv.localID)}
		if err := v.rndv.onRndvRTR(nil, rtr.Append(nil), nil); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			v.Progress()
		}
		if send.Err() != nil || recv.Err() != nil {
			t.Errorf("send %v, receive %v", send.Err(), recv.Err())
		}
	})
	t.Run("acknowledgements that add up", func(t *testing.T) { // 1.22.0, over several lanes
		v := newTarget(t)
		recv := v.fetching(make([]byte, 100))
		for i, n := range []int{60, 0, 39, 1} {
			if recv.Done() {
				t.Fatalf("done before acknowledgement %d", i)
			}
			atp := proto.RndvAck{ReqID: proto.RequestID(recv.localID), Size: n, HasSize: true}
			if err := v.rndv.onRndvATP(nil, atp.Append(nil), nil); err != nil {
				t.Fatal(err)
			}
		}
		if recv.Err() != nil {
			t.Error(recv.Err())
		}
	})
	t.Run("data and acknowledgements", func(t *testing.T) {
		v := newTarget(t)
		recv := v.fetching(make([]byte, 100))
		id := proto.RequestID(recv.localID)
		if err := v.rndv.onRndvATP(nil, proto.RndvAck{ReqID: id, Size: 50, HasSize: true}.Append(nil), nil); err != nil {
			t.Fatal(err)
		}
		if err := v.rndv.onRndvData(nil, append(proto.RndvData{RecvReqID: id, Offset: 50}.Append(nil), make([]byte, 50)...), nil); err != nil {
			t.Fatal(err)
		}
		if recv.Err() != nil {
			t.Error(recv.Err())
		}
	})
	t.Run("an offer for another operation", func(t *testing.T) {
		v := newTarget(t)
		rts := proto.RndvRTS{EpID: v.ep.localID, ReqID: 5, Size: 100, Op: proto.RndvAM}
		v.dropped("rts", v.rndv.onRndvRTS(nil, rts.Append(nil), nil))
	})
	t.Run("a sync message of one fragment in the long form", func(t *testing.T) { // 1.22.0
		v := newTarget(t)
		buf := make([]byte, 9)
		recv, err := v.TagRecv(1, FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := proto.EagerSyncFirst{EagerFirst: proto.EagerFirst{Tag: 1, TotalLen: 9, MsgID: 4}, EpID: v.ep.localID, ReqID: 3}
		if err := v.tag.onEagerSyncFirst(nil, append(h.Append(nil), "some data"...), nil); err != nil {
			t.Fatal(err)
		}
		if recv.Err() != nil || string(buf) != "some data" || v.stats.SyncAcks != 1 {
			t.Errorf("%v, %q, %d acknowledgements", recv.Err(), buf, v.stats.SyncAcks)
		}
	})
}
