package ucp

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// activeTarget is a targetWorker with a handler of active messages, which records their data.
type activeTarget struct {
	*targetWorker
	got [][]byte // the data
}

const (
	targetID = 7 // has the handler
	queueID  = 8
)

func newActiveTarget(t testing.TB) *activeTarget {
	t.Helper()
	v := &activeTarget{targetWorker: newTargetFor(t, targetFeatures|FeatureAM)}
	v.log.Allow("active message without handler")
	if err := v.SetAMHandler(AMHandlerParams{ID: targetID, Handler: func(m *AMMessage) error {
		v.got = append(v.got, bytes.Clone(m.Data()))
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	return v
}

// first and middle handle a fragment as if a peer had sent it.
func (v *activeTarget) first(id, total int, data []byte, header string) error {
	b := proto.AMHeader{ID: targetID, HeaderLen: uint32(len(header))}.Append(nil)
	b = append(append(b, data...), header...)
	f := proto.AMFirstFooter{MsgID: proto.MessageID(id), EpID: v.ep.localID, TotalLen: total}
	return v.am.onAMFirst(nil, f.Append(b), nil)
}

func (v *activeTarget) middle(id, off int, data []byte) error {
	m := proto.AMMiddle{Offset: off, MsgID: proto.MessageID(id), EpID: v.ep.localID}
	b := make([]byte, proto.AMHeaderSize)
	m.PutHeader(b)
	b = append(b, data...)
	f := make([]byte, proto.AMMiddleFooterSize)
	m.PutFooter(f)
	return v.am.onAMMiddle(nil, append(b, f...), nil)
}

func (v *activeTarget) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// handled checks which messages the handler has got since the last call of handled.
func (v *activeTarget) handled(want ...string) {
	v.Helper()
	var got []string
	for _, b := range v.got {
		got = append(got, string(b))
	}
	if !slices.Equal(got, want) {
		v.Errorf("handled %q, want %q", got, want)
	}
	v.got = nil
}

// TestAMPartsOrder: fragments may arrive in any order, and messages are handled in the order of
// their first fragments.
func TestAMPartsOrder(t *testing.T) {
	v := newActiveTarget(t)
	held := v.Stats().UnexpectedBytes
	v.must(v.middle(1, 4, []byte("efgh"))) // before the first
	v.must(v.middle(1, 10, []byte("kl")))
	v.handled()
	v.must(v.first(1, 12, []byte("abcd"), "h"))
	v.must(v.middle(1, 8, []byte("ij")))
	v.handled("abcdefghijkl")

	v.must(v.first(2, 4, []byte("2a"), ""))
	v.must(v.first(3, 4, []byte("3a"), "header"))
	v.must(v.middle(4, 2, []byte("4b")))
	v.must(v.middle(3, 2, []byte("3b"))) // complete, and waits for message 2
	v.must(v.first(4, 4, []byte("4a"), ""))
	v.handled()
	v.must(v.first(5, 2, []byte("5a"), "")) // in one fragment: waits for nothing
	v.handled("5a")
	v.must(v.middle(2, 2, []byte("2b")))
	v.handled("2a2b", "3a3b", "4a4b")
	if n := v.Stats().UnexpectedBytes; n != held {
		t.Errorf("%d bytes are held for nothing", n-held)
	}

	// The fragments of a closed endpoint are dropped.
	v.must(v.first(6, 4, []byte("6a"), ""))
	v.must(v.middle(7, 2, []byte("7a")))
	v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
	if n := v.Stats().UnexpectedBytes; n != held || len(v.eager.assemblies) != 0 {
		t.Errorf("%d bytes and %d messages are held for nothing", n-held, len(v.eager.assemblies))
	}
	v.dropped("a fragment for an endpoint that is gone", v.middle(7, 0, []byte("77")))
}

// TestAMPartsPlace: memory for a whole message is allocated, and charged, when an eighth of the
// message has arrived. Fragments that arrive before and after that are stored at their offsets.
func TestAMPartsPlace(t *testing.T) {
	v := newActiveTarget(t)
	whole := make([]byte, 80_000)
	for i := range whole {
		whole[i] = byte(i * 7)
	}
	v.must(v.middle(1, 70_000, whole[70_000:]))
	v.must(v.first(1, len(whole)*2, nil, "header")) // claims more than eight times what has arrived
	before := v.Stats().UnexpectedBytes
	if before > 40_000 {
		t.Errorf("%d bytes are held for 10000", before)
	}
	v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
	v.handled()
	if n := v.Stats().UnexpectedBytes; n != 0 {
		t.Errorf("%d bytes are held for nothing", n)
	}

	v = newActiveTarget(t)
	v.must(v.middle(1, 70_000, whole[70_000:]))
	v.must(v.first(1, len(whole), whole[:1000], "header"))
	if n := v.Stats().UnexpectedBytes; n < len(whole) || n > 3*len(whole) {
		t.Errorf("%d bytes are charged for a message of %d that has its place", n, len(whole))
	}
	v.must(v.middle(1, 40_000, whole[40_000:70_000]))
	v.refused("a repeated fragment", v.middle(1, 50_000, whole[50_000:51_000]))
	v.must(v.middle(1, 1000, whole[1000:40_000]))
	v.handled(string(whole))
	if n := v.Stats().UnexpectedBytes; n != 0 {
		t.Errorf("%d bytes are held for nothing", n)
	}
	// A message for which memory is allocated is given up.
	v.must(v.first(2, len(whole), whole[:20_000], "header"))
	v.eager.abandonMessage(v.eager.assemblies[assemblyKey{v.ep.localID, 2}])
	if n := v.Stats().UnexpectedBytes; n != 0 {
		t.Errorf("%d bytes are held for nothing", n)
	}
	v.exchange()
}

// TestAMPartsLost: when the rest of a message will not arrive, the messages behind it are handled.
func TestAMPartsLost(t *testing.T) {
	v := newActiveTarget(t)
	v.must(v.first(1, 4, []byte("1a"), ""))
	v.must(v.first(2, 4, []byte("2a"), ""))
	v.must(v.middle(2, 2, []byte("2b")))
	v.handled()
	a := v.eager.assemblies[assemblyKey{v.ep.localID, 1}]
	v.eager.abandonMessage(a)
	v.handled() // not inside the call that gives up the message
	v.Progress()
	v.handled("2a2b")
	v.must(v.first(1, 4, []byte("1a"), "")) // the id is free again
	v.must(v.middle(1, 2, []byte("1b")))
	v.handled("1a1b")
}

// TestHostileAMLengths: every handler survives messages of any length and content, and refuses
// those that are too short.
func TestHostileAMLengths(t *testing.T) {
	v := newActiveTarget(t)
	for name, h := range map[string]uct.AMHandler{
		"single": v.am.onAMSingle(), "single reply": v.am.onAMSingleReply, "first": v.am.onAMFirst, "middle": v.am.onAMMiddle, "offer": v.rndv.onRndvRTS,
	} {
		for n := range 120 {
			for _, fill := range []byte{0, 0xFF, 0x01, 0x80, targetID} {
				if err := h(nil, bytes.Repeat([]byte{fill}, n), nil); n < 8 && err == nil {
					t.Errorf("%s: %d bytes were taken for a message", name, n)
				}
			}
		}
	}
	v.exchange()
}

// TestHostileAMFragments: fragments that overlap, repeat or lie outside the message are
// refused; a claimed length costs nothing.
func TestHostileAMFragments(t *testing.T) {
	v := newActiveTarget(t)
	v.must(v.first(1, 100, make([]byte, 10), "header"))
	v.refused("a second first fragment", v.first(1, 100, make([]byte, 10), ""))
	v.refused("another length", v.first(1, 50, make([]byte, 10), ""))
	v.refused("the whole message again", v.first(1, 10, make([]byte, 10), ""))
	v.refused("a repeated fragment", v.middle(1, 0, make([]byte, 10)))
	v.refused("an overlapping fragment", v.middle(1, 9, make([]byte, 5)))
	v.refused("a fragment across the end", v.middle(1, 95, make([]byte, 6)))
	v.refused("a fragment far away", v.middle(1, math.MaxInt-100, make([]byte, 6)))
	v.must(v.middle(2, 50, make([]byte, 10)))
	v.refused("a length that is too short", v.first(2, 40, make([]byte, 10), ""))
	v.refused("a payload that is longer than the length", v.first(3, 5, make([]byte, 6), ""))
	held := v.Stats().UnexpectedBytes
	for i := range 50 {
		v.must(v.first(100+i, hugeLength, make([]byte, 10), ""))
	}
	if grown := v.Stats().UnexpectedBytes - held; grown > 50*1024 {
		t.Errorf("50 small fragments of huge messages hold %d bytes", grown)
	}
	v.handled()
	v.exchange()
}

// TestHostileAMHeaders: messages that claim a header longer than the message are refused, and
// messages for endpoints that do not exist are dropped.
func TestHostileAMHeaders(t *testing.T) {
	v := newActiveTarget(t)
	for _, n := range []uint32{9, 1 << 16, math.MaxUint32} {
		h := proto.AMHeader{ID: targetID, HeaderLen: n}
		body := append(h.Append(nil), make([]byte, 8)...)
		v.refused("a single message", v.am.onAMSingle()(nil, body, nil))
		v.refused("one to be answered", v.am.onAMSingleReply(nil, proto.AMReplyFooter{EpID: v.ep.localID}.Append(body), nil))
		v.refused("a first fragment", v.am.onAMFirst(nil, proto.AMFirstFooter{EpID: v.ep.localID, TotalLen: 100}.Append(body), nil))
		offer := proto.RndvRTS{Header: h.Word(), EpID: v.ep.localID, ReqID: 5, Size: 10, Op: proto.RndvAM}.Append(nil)
		v.refused("an offer", v.rndv.onRndvRTS(nil, append(offer, make([]byte, 8)...), nil))
	}
	for _, id := range []proto.EndpointID{0, 1, math.MaxUint64, v.ep.localID ^ 1<<40} {
		h := proto.AMHeader{ID: targetID, Flags: proto.AMFlagReply}.Append(nil)
		v.dropped("one to be answered", v.am.onAMSingleReply(nil, proto.AMReplyFooter{EpID: id}.Append(bytes.Clone(h)), nil))
		v.dropped("a first fragment", v.am.onAMFirst(nil, proto.AMFirstFooter{EpID: id, TotalLen: 100}.Append(bytes.Clone(h)), nil))
		v.dropped("a later fragment", v.am.onAMMiddle(nil, proto.AMFirstFooter{EpID: id}.Append(bytes.Clone(h))[:24], nil))
	}
	v.handled()
	v.exchange()
}

// TestHostileAMUnexpected: the memory for queued messages and for fragments stops growing at the
// limit, and the worker goes on when there is room again.
func TestHostileAMUnexpected(t *testing.T) {
	const limit = 1 << 20
	single := func(v *activeTarget, n int) error {
		return v.am.onAMSingle()(nil, append(proto.AMHeader{ID: queueID}.Append(nil), make([]byte, n)...), nil)
	}
	for name, message := range map[string]func(v *activeTarget, i int) error{
		"empty": func(v *activeTarget, _ int) error { return single(v, 0) },
		"large": func(v *activeTarget, _ int) error { return single(v, 5000) },
		"offers": func(v *activeTarget, _ int) error {
			h := proto.RndvRTS{Header: queueID, EpID: v.ep.localID, ReqID: 1, Size: hugeLength, Op: proto.RndvAM}
			return v.rndv.onRndvRTS(nil, h.Append(nil), nil)
		},
		"first fragments":      func(v *activeTarget, i int) error { return v.first(i, 10, nil, "header") },
		"later fragments":      func(v *activeTarget, i int) error { return v.middle(i, 8, make([]byte, 100)) },
		"one message for ever": func(v *activeTarget, i int) error { return v.middle(1, i*100, make([]byte, 100)) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newActiveTarget(t)
			q, err := v.NewAMQueue(AMQueueParams{ID: queueID, Offers: true})
			v.must(err)
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
			amFamily{}.purge(v.ep, nil)
			v.must(q.Close())
			if held := v.Stats().UnexpectedBytes; held != 0 {
				t.Errorf("%d bytes are held by nothing", held)
			}
			v.exchange()
		})
	}
}

// TestAMQueueLiar: if a peer claims that it has written the data of its message, and has not, the
// message does not contain what was in the memory before, which may be data of another peer.
func TestAMQueueLiar(t *testing.T) {
	v := newActiveTarget(t)
	q, err := v.NewAMQueue(AMQueueParams{ID: queueID})
	v.must(err)
	secret := v.buffers.Get(5000)
	for i := range secret {
		secret[i] = 0xAA
	}
	v.buffers.Put(secret)
	h := proto.RndvRTS{Header: queueID, EpID: v.ep.localID, ReqID: 1, Size: 5000, Op: proto.RndvAM}
	v.must(v.rndv.onRndvRTS(nil, h.Append(nil), nil))
	if m, ok := q.TryNext(); ok {
		t.Fatalf("a message of %d bytes whose data is at its sender", m.Len())
	}
	v.pool.requestIDs.Each(func(r *Request) {
		v.must(v.rndv.onRndvATP(nil, proto.RndvAck{ReqID: proto.RequestID(r.localID)}.Append(nil), nil))
	})
	m, ok := q.TryNext()
	if !ok {
		return // the claim was not believed
	}
	if !bytes.Equal(m.Data(), make([]byte, 5000)) {
		t.Error("the message has what was in the memory before")
	}
	m.Release()
}

// TestAMQueueShared: peers in shared memory that offer data and do not send it use up only a part
// of the memory for unexpected messages. Offers that wait for room are fetched when there is some.
func TestAMQueueShared(t *testing.T) {
	v := newActiveTarget(t)
	q, err := v.NewAMQueue(AMQueueParams{ID: queueID})
	v.must(err)
	most := v.accounts.Limits.Bytes / sharedPart
	const size = 100_000
	ends := []*Endpoint{v.ep}
	for len(ends) <= most/size+3 {
		ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address})
		v.must(err)
		ends = append(ends, ep)
	}
	for _, ep := range ends {
		h := proto.RndvRTS{Header: queueID, EpID: ep.localID, ReqID: 1, Size: size, Op: proto.RndvAM}
		v.must(v.rndv.onRndvRTS(nil, h.Append(nil), nil))
	}
	if _, ok := q.TryNext(); ok {
		t.Error("a message whose data is at its sender")
	}
	if q.shared > most || q.shared+size <= most || len(q.stalled) == 0 {
		t.Errorf("%d bytes are being fetched of at most %d, %d messages are stalled", q.shared, most, len(q.stalled))
	}
	for range ends {
		v.pool.requestIDs.Each(func(r *Request) {
			v.must(v.rndv.onRndvATP(nil, proto.RndvAck{ReqID: proto.RequestID(r.localID)}.Append(nil), nil))
		})
		for m, ok := q.TryNext(); ok; m, ok = q.TryNext() {
			m.Release()
		}
	}
	if q.shared != 0 || q.senderQueues != nil || len(q.stalled) != 0 || v.Stats().UnexpectedBytes != 0 {
		t.Errorf("left: %d bytes being fetched, %d asides, %d stalled, %d bytes held", q.shared, len(q.senderQueues), len(q.stalled), v.Stats().UnexpectedBytes)
	}
}

// TestAMQueueOfUser: a message that was taken out of a queue stays valid if its sender is evicted,
// and is charged until it is released.
func TestAMQueueOfUser(t *testing.T) {
	v := newActiveTarget(t)
	v.log.Expect("dropping the connection that holds the most")
	q, err := v.NewAMQueue(AMQueueParams{ID: queueID, Offers: true})
	v.must(err)
	for range 3 {
		v.must(v.am.onAMSingle()(nil, append(proto.AMHeader{ID: queueID}.Append(nil), make([]byte, 5000)...), nil))
	}
	before := v.Stats().UnexpectedBytes
	m, ok := q.TryNext()
	if taken := v.Stats().UnexpectedBytes; !ok || before < 15000 || taken != before {
		t.Errorf("%v: %d bytes are held with three messages, %d when one is taken", ok, before, taken)
	}
	m.Release()
	if after := v.Stats().UnexpectedBytes; after > before-5000 {
		t.Errorf("%d bytes are held with three messages, %d with two", before, after)
	}
	m, err = q.Next(context.Background())
	v.must(err)
	if len(m.Data()) != 5000 {
		t.Errorf("%d bytes", len(m.Data()))
	}
	v.accounts.unnamed.Evict(ucs.ErrExceedsLimit)
	if m2, ok := q.TryNext(); ok {
		t.Errorf("message %d is there after it had to give way", m2.ID())
	}
	m.Release() // the eviction has not freed it
	if held := v.Stats().UnexpectedBytes; held != 0 {
		t.Errorf("%d bytes are held by nothing", held)
	}
}

// TestAMReplyHolds: an endpoint that a peer has opened is not evicted while the application holds a
// message that it may reply to.
func TestAMReplyHolds(t *testing.T) {
	v, peer := newTargetFor(t, targetFeatures|FeatureAM, "TLS", "tcp", "NET_DEVICES", "lo"), newTargetFor(t, targetFeatures|FeatureAM, "TLS", "tcp", "NET_DEVICES", "lo")
	theirs, err := peer.NewEndpoint(EndpointParams{Address: v.own.address})
	if err != nil {
		t.Fatal(err)
	}
	var kept *AMMessage
	if err := v.SetAMHandler(AMHandlerParams{ID: 1, Handler: func(m *AMMessage) error {
		m.Keep()
		kept = m
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	sent, err := theirs.AMSend(1, nil, nil, &RequestParams{AMFlags: AMSendReply})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the message", func() bool { return kept != nil && sent.Done() }, v, peer)
	to := kept.Reply()
	s := to.w.accounts.openedBy(to)
	if s == nil {
		t.Fatal("the endpoint is the application's")
	}
	wireupFamily{}.evict(s, ucs.ErrExceedsLimit)
	if to.life.Stage == life.Gone || to.held != 1 {
		t.Errorf("the endpoint has given way, held %d", to.held)
	}
	kept.Release()
	if to.held != 0 {
		t.Errorf("held %d after the release", to.held)
	}
	wireupFamily{}.evict(s, ucs.ErrExceedsLimit)
	if to.life.Stage != life.Gone {
		t.Error("the endpoint does not give way")
	}
	if sent, err = theirs.TagSend(1, nil, nil); err == nil { // the peer may go on sending
		sent.Free()
	}
}

// TestAMUsedAfter: the use of a message after its end is detected.
func TestAMUsedAfter(t *testing.T) {
	v := newActiveTarget(t)
	var m *AMMessage
	keep := true
	v.must(v.SetAMHandler(AMHandlerParams{ID: 1, Handler: func(got *AMMessage) error {
		if m = got; keep {
			m.Keep()
		}
		return nil
	}}))
	send := func() {
		t.Helper()
		if _, err := v.ep.AMSend(1, nil, make([]byte, 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	panics := func(what string, use func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: not found out", what)
			}
		}()
		use()
	}
	uses := func(what string, m *AMMessage) {
		t.Helper()
		panics(what+": data", func() { m.Data() })
		panics(what+": header", func() { m.Header() })
		panics(what+": keep", func() { m.Keep() })
		panics(what+": release", func() { m.Release() })
		if _, err := m.Recv(nil, nil); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: receive: %v", what, err)
		}
	}
	send()
	m.Release()
	old := m
	uses("released", old)
	for range quarantine - 1 { // so long the use is detected for certain
		send()
		m.Release()
	}
	uses("released a while ago", old)
	keep = false
	send()
	uses("after the handler", m)
	keep = true
	send()
	if _, err := m.Recv(make([]byte, 100), nil); err != nil {
		t.Fatal(err)
	}
	uses("received", m)
	if race.Enabled {
		for range 4 * quarantine {
			send()
			m.Release()
		}
		uses("in a race build for ever", old)
	}
}
