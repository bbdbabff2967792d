package ucp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// Messages of peers are not trusted. These tests call the handlers with messages that
// no correct peer sends: each message is refused or dropped, counted, and changes
// nothing else.

// TestHostileLengths: every handler survives messages of any length and content, and
// refuses those that are too short.
func TestHostileLengths(t *testing.T) {
	v := newTarget(t)
	for name, h := range v.handlers() {
		for n := range 120 {
			for _, fill := range []byte{0, 0xFF, 0x01, 0x80} {
				err := h(nil, bytes.Repeat([]byte{fill}, n), nil)
				if n < 8 && err == nil {
					t.Errorf("%s: %d bytes were taken for a message", name, n)
				}
			}
		}
	}
	for r := v.tag.oldest(); r != nil; r = v.tag.oldest() {
		v.tag.removeUnexpected(r)
		v.tag.putMessage(r)
	}
	v.exchange()
}

// TestHostileIDs: messages with ids that were never given out are dropped.
func TestHostileIDs(t *testing.T) {
	v := newTarget(t)
	for _, id := range []uint64{0, 1, 2, 3, math.MaxUint64, uint64(v.ep.localID) ^ 2, uint64(v.ep.localID) ^ 1<<40} {
		req, ep := proto.RequestID(id), proto.EndpointID(id)
		v.dropped("sync ack", v.tag.onEagerSyncAck(nil, proto.EagerSyncAck{ReqID: req}.Append(nil), nil))
		v.dropped("rtr", v.rndv.onRndvRTR(nil, proto.RndvRTR{SendReqID: req, Size: 8}.Append(nil), nil))
		v.dropped("data", v.rndv.onRndvData(nil, proto.RndvData{RecvReqID: req}.Append(nil), nil))
		v.dropped("ats", v.rndv.onRndvATS(nil, proto.RndvAck{ReqID: req, HasSize: true}.Append(nil), nil))
		v.dropped("atp", v.rndv.onRndvATP(nil, proto.RndvAck{ReqID: req, HasSize: true}.Append(nil), nil))
		v.dropped("rts", v.rndv.onRndvRTS(nil, proto.RndvRTS{EpID: ep, ReqID: 5, Size: 100}.Append(nil), nil))
		if id != 0 {
			m := proto.Wireup{Type: proto.WireupReply, SrcEp: 7, DstEp: ep, Address: v.own.emptyAddress()}
			b, err := m.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			v.dropped("wireup reply", v.wireups.onWireup(nil, b, nil))
		}
	}
	// The ids of requests of another kind.
	recv, err := v.TagRecv(1, 0, make([]byte, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	sync := v.syncSend(2)
	id := proto.RequestID(sync.localID)
	v.dropped("rtr for a synchronous send", v.rndv.onRndvRTR(nil, proto.RndvRTR{SendReqID: id, Size: 8}.Append(nil), nil))
	v.dropped("data for a synchronous send", v.rndv.onRndvData(nil, proto.RndvData{RecvReqID: id}.Append(nil), nil))
	v.dropped("ats for a synchronous send", v.rndv.onRndvATS(nil, proto.RndvAck{ReqID: id}.Append(nil), nil))
	v.dropped("atp for a synchronous send", v.rndv.onRndvATP(nil, proto.RndvAck{ReqID: id}.Append(nil), nil))
	if recv.Done() || sync.Done() {
		t.Error("an operation was ended")
	}
	v.Cancel(recv)
	v.exchange()
}

// TestHostileFragments: fragments that overlap, repeat or lie outside the message
// are refused; a claimed length costs nothing.
func TestHostileFragments(t *testing.T) {
	v := newTarget(t)
	first := func(id, total, n int) error {
		b := proto.EagerFirst{Tag: 0xF1, TotalLen: total, MsgID: proto.MessageID(id)}.Append(nil)
		return v.tag.onEagerFirst(nil, append(b, make([]byte, n)...), nil)
	}
	middle := func(id, off, n int) error {
		b := proto.EagerMiddle{MsgID: proto.MessageID(id), Offset: off}.Append(nil)
		return v.tag.onEagerMiddle(nil, append(b, make([]byte, n)...), nil)
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

	// A claimed length is believed, but no memory is allocated for it.
	held := v.Stats().UnexpectedBytes
	for i := range 50 {
		if err := first(100+i, hugeLength, 10); err != nil {
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

	// Lengths that are negative as an int, or longer than any memory.
	for _, n := range []uint64{1 << 63, 1<<63 - 1, hugeLength + 1} {
		b := proto.EagerFirst{Tag: 0xF1, MsgID: 7}.Append(nil)
		binary.LittleEndian.PutUint64(b[8:], n)
		v.refused(fmt.Sprintf("a length of %#x", n), v.tag.onEagerFirst(nil, b, nil))
		b = proto.EagerSyncFirst{EagerFirst: proto.EagerFirst{Tag: 0xF1, MsgID: 7}}.Append(nil)
		binary.LittleEndian.PutUint64(b[8:], n)
		v.refused(fmt.Sprintf("a length of %#x, synchronous", n), v.tag.onEagerSyncFirst(nil, b, nil))
		if n < 1<<63 {
			offer := proto.RndvRTS{EpID: v.ep.localID, ReqID: 1, Header: 0xF1, Size: int(n)}
			v.refused(fmt.Sprintf("an offer of %#x bytes", n), v.rndv.onRndvRTS(nil, offer.Append(nil), nil))
		}
	}
	for {
		info, ok := v.TagPeek(0, 0)
		if !ok {
			break
		}
		if info.Length > hugeLength {
			t.Errorf("a length of %#x is told", info.Length)
		}
		m, _ := v.TagTake(0, 0)
		m.Discard()
	}
	v.exchange()
}

// hugeLength is the longest message that a peer may claim.
const hugeLength = min(1<<47, math.MaxInt/2)

// TestHostileUnexpected: the memory for unexpected messages of any kind stops growing
// at the limit, and the worker goes on when there is room again.
func TestHostileUnexpected(t *testing.T) {
	needtest.Goroutines(t)
	const limit = 1 << 20
	for name, message := range map[string]func(v *targetWorker, i int) error{
		"empty": func(v *targetWorker, _ int) error { return v.tag.onEagerOnly()(nil, make([]byte, 8), nil) },
		"large": func(v *targetWorker, _ int) error { return v.tag.onEagerOnly()(nil, make([]byte, 5000), nil) },
		"offers": func(v *targetWorker, _ int) error {
			return v.rndv.onRndvRTS(nil, proto.RndvRTS{EpID: v.ep.localID, ReqID: 1, Size: hugeLength}.Append(nil), nil)
		},
		"orphan fragments": func(v *targetWorker, i int) error {
			b := proto.EagerMiddle{MsgID: proto.MessageID(i), Offset: 8}.Append(nil)
			return v.tag.onEagerMiddle(nil, append(b, make([]byte, 100)...), nil)
		},
		"one message for ever": func(v *targetWorker, i int) error {
			b := proto.EagerMiddle{MsgID: 1, Offset: i * 100}.Append(nil)
			return v.tag.onEagerMiddle(nil, append(b, make([]byte, 100)...), nil)
		},
		"fragments without bytes": func(v *targetWorker, i int) error {
			if i == limit {
				return ucs.ErrExceedsLimit // they hold no memory, so they have no limit
			}
			return v.tag.onEagerMiddle(nil, proto.EagerMiddle{MsgID: 1, Offset: i}.Append(nil), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTarget(t)
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
			v.eager.cancelAssemblies()
			v.tag.dropMessages()
			if held := v.Stats().UnexpectedBytes; held != 0 {
				t.Errorf("%d bytes are held by nothing", held)
			}
			v.exchange()
		})
	}
}

// TestHostileAssemblies: the number of incomplete messages is bounded as well.
func TestHostileAssemblies(t *testing.T) {
	v := newTarget(t)
	for i := 0; ; i++ {
		if i*assemblySize > 2<<20 {
			t.Fatal("no limit")
		}
		if v.tag.onEagerMiddle(nil, proto.EagerMiddle{MsgID: proto.MessageID(i)}.Append(nil), nil) != nil {
			break
		}
	}
	v.eager.cancelAssemblies()
	v.exchange()
}
