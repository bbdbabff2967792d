package ucp

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestHostileRTR: a receiver cannot request data outside the message, or the same part twice.
func TestHostileRTR(t *testing.T) {
	v := newTarget(t)
	req := v.offer(offerLength)
	id := proto.RequestID(req.localID)
	rtr := func(off, n int) error {
		return v.rndv.onRndvRTR(nil, proto.RndvRTR{SendReqID: id, RecvReqID: 99, Size: n, Offset: off}.Append(nil), nil)
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
	v.refused("a key that makes no sense", v.rndv.onRndvRTR(nil, key, nil))
	for v.Progress() > 0 {
	}
	if req.Done() {
		t.Fatalf("the send is done: %v", req.Err())
	}
	v.stats.Dropped = 0 // the data for the unknown request 99
	if err := v.rndv.onRndvATS(nil, proto.RndvAck{ReqID: id, Status: ucs.ErrCanceled}.Append(nil), nil); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(req.Err(), ucs.ErrCanceled) {
		t.Errorf("the send ended with %v", req.Err())
	}
	v.dropped("a second ats", v.rndv.onRndvATS(nil, proto.RndvAck{ReqID: id}.Append(nil), nil))
	v.exchange()
}

// TestForeignRendezvous: an offer of an operation that is not implemented is
// answered with a status, or its sender would wait for ever.
func TestForeignRendezvous(t *testing.T) {
	for _, op := range []proto.RndvOp{proto.RndvAM, proto.RndvRMA} {
		v := newTarget(t)
		req := v.offer(offerLength)
		rts := proto.RndvRTS{EpID: v.ep.localID, ReqID: proto.RequestID(req.localID), Size: offerLength, Op: op}
		v.dropped("an offer of another operation", v.rndv.onRndvRTS(nil, rts.Append(nil), nil))
		for range 1000 {
			if v.Progress(); req.Done() {
				break
			}
		}
		if err := req.Err(); err != ucs.ErrUnsupported {
			t.Errorf("operation %d: the sender's request ended with %v", op, err)
		}
		req.Free()
		v.exchange()
	}
}

// TestHostileParts: a peer that requests a byte at a time while nothing can be
// sent does not make the list of parts grow for ever.
func TestHostileParts(t *testing.T) {
	v := newTarget(t)
	req := v.offer(offerLength)
	id := proto.RequestID(req.localID)
	req.proto = rndvBcopy{} // as if a part was being sent
	accepted := 0
	for ; accepted < 2*maxParts; accepted++ {
		if v.rndv.onRndvRTR(nil, proto.RndvRTR{SendReqID: id, Size: 1, Offset: accepted}.Append(nil), nil) != nil {
			break
		}
	}
	if accepted != maxParts || len(req.offer.parts) != maxParts {
		t.Errorf("%d parts were accepted", accepted)
	}
	req.proto = rndvOffer{}
}

// TestHostileData: data outside the buffer, and data that has arrived before, is not stored.
func TestHostileData(t *testing.T) {
	v := newTarget(t)
	mem := make([]byte, 100+8)
	buf, fence := mem[:100:100], mem[100:]
	req := v.fetching(buf)
	data := func(off, n int) error {
		b := proto.RndvData{RecvReqID: proto.RequestID(req.localID), Offset: off}.Append(nil)
		return v.rndv.onRndvData(nil, append(b, bytes.Repeat([]byte{0xEE}, n)...), nil)
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
	v.dropped("data after the end", v.rndv.onRndvData(nil, proto.RndvData{RecvReqID: proto.RequestID(id)}.Append(nil), nil))
	req.Free()
	v.exchange()
}

// TestHostileATP: acknowledgements with wrong sizes or statuses end a receive at
// most once.
func TestHostileATP(t *testing.T) {
	for _, ack := range []proto.RndvAck{
		{Size: 0, HasSize: true},
		{Size: hugeLength, HasSize: true},
		{HasSize: false},
		{Status: ucs.ErrIO},
		{Status: ucs.InProgress},
		{Status: -128},
	} {
		v := newTarget(t)
		req := v.fetching(make([]byte, 100))
		ack.ReqID = proto.RequestID(req.localID)
		for range 3 {
			if err := v.rndv.onRndvATP(nil, ack.Append(nil), nil); err != nil {
				t.Errorf("%+v: %v", ack, err)
			}
		}
		ended := ack.Size != 0 || !ack.HasSize
		if req.Done() != ended {
			t.Errorf("%+v: done %v", ack, req.Done())
		}
		if !ended {
			v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
		}
		if bad := ack.Status != ucs.OK; ended && bad && req.Err() == nil {
			t.Errorf("%+v: success", ack)
		}
	}
}

// fickleDomain is a memory domain that unpacks a key while the peer changes the message.
type fickleDomain struct {
	uct.MemoryDomain
	message  []byte
	unpacked [][]byte
}

func (d *fickleDomain) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	d.unpacked = append(d.unpacked, bytes.Clone(packed))
	clear(d.message)
	return &uct.Rkey{}, nil
}

func (d *fickleDomain) ReleaseRkey(*uct.Rkey) error { return nil }

// TestKeyChangedWhileMapped: a mapping for one key is not used for another key that
// the peer has put in its place in the message.
func TestKeyChangedWhileMapped(t *testing.T) {
	v := newTarget(t)
	d := &fickleDomain{message: []byte("a key of the peer")}
	v.mds = append(v.mds, d)
	md := uint8(len(v.mds) - 1)
	a, err := v.rndv.mapOfferedKey(v.ep, md, d.message)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.packed, d.unpacked[0]) {
		t.Errorf("%q was mapped, and is found as %q", d.unpacked[0], a.packed)
	}
	v.rndv.forgetMappedKeys(v.ep)
}

// TestOfferForFailedEndpoint: an offer that names an endpoint which has failed ends the
// receive that it matches.
func TestOfferForFailedEndpoint(t *testing.T) {
	v := newTarget(t)
	buf := make([]byte, 100)
	req, err := v.TagRecv(0xF0, FullMask, buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	ep.fail(ucs.ErrConnectionReset)
	rts := proto.RndvRTS{Header: 0xF0, EpID: ep.localID, ReqID: 0x1234567, Size: 100}
	if err := v.rndv.onRndvRTS(nil, rts.Append(nil), nil); err != nil {
		t.Fatal(err)
	}
	if !req.Done() {
		t.Error("the receive goes on waiting for a message that was dropped")
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}
