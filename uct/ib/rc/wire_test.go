//go:build linux

package rc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestMessageBytes checks the bytes that each send operation puts on the wire.
func TestMessageBytes(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	ep := p.ep
	data := h.IOV(t, []byte("data"))
	c := ucttest.NewCompletion(1)
	check(t, ep.AMShort(3, 0x0807060504030201, []byte("abc"), 0, nil))
	check(t, ep.AMShortIOV(4, []uct.IOV{{Data: []byte("x")}, {}, {Data: []byte("yz")}}, 0, nil))
	if _, err := ep.AMBcopy(31, &ucttest.Packer{Data: []byte("copied")}, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := ep.AMZcopy(0, &ucttest.Packer{Data: []byte("head")}, []uct.IOV{data}, 0, &c.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	if err := ep.AMZcopy(1, nil, nil, 0, nil); err != ucs.InProgress {
		t.Fatal(err)
	}
	ucttest.Settle(h)
	want := []string{"\x03\x01\x02\x03\x04\x05\x06\x07\x08abc", "\x04xyz", "\x1fcopied", "\x00headdata", "\x01"}
	got := p.Received()
	for k := range want {
		if k >= len(got) || string(got[k]) != want[k] {
			t.Fatalf("arrived %q, want %q", got, want)
		}
	}
	if len(got) != len(want) || c.Fired != 1 || c.Err != nil {
		t.Errorf("%d messages, completed %d times, %v", len(got), c.Fired, c.Err)
	}
}

// TestSolicited checks that messages raise an event on a peer that waits for solicited completions,
// and that grants and puts do not.
func TestSolicited(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	woken := func() bool {
		_, ok, err := p.Wake.TryEvent()
		check(t, err)
		return ok
	}
	check(t, p.Got.ReqNotify(true))
	p.tell(0x41, 1) // asks for a grant at once
	if _, err := ucsAccepted(p.ep.Check(nil)); err != nil {
		t.Fatal(err)
	}
	ucttest.Settle(h)
	if got := p.Received(); len(got) != 1 || string(got[0]) != "\xe0" || woken() {
		t.Fatalf("heard %x, or was woken by it", got)
	}
	key := &uct.Rkey{Value: uint64(p.MR.RKey()) | 0xffffffff<<32}
	check(t, p.ep.(uct.RMA).PutShort([]byte("put"), p.MR.Addr(), key))
	if woken() {
		t.Error("woken by a put")
	}
	for k, send := range []func() error{
		func() error { return p.ep.AMShort(1, 2, nil, 0, nil) },
		func() error { return p.ep.AMShortIOV(1, nil, 0, nil) },
		func() error {
			_, err := p.ep.AMBcopy(1, &ucttest.Packer{}, 0, nil)
			return err
		},
		func() error { return p.ep.AMZcopy(1, nil, nil, 0, nil) },
	} {
		if _, err := ucsAccepted(send()); err != nil {
			t.Fatal(err)
		}
		if !woken() {
			t.Errorf("not woken by message %d", k)
		}
		check(t, p.Got.ReqNotify(true))
	}
}

// ucsAccepted turns ucs.InProgress into true and no error.
func ucsAccepted(err error) (bool, error) {
	if err == ucs.InProgress {
		return true, nil
	}
	return false, err
}

// TestFlowOnWire checks the flow control bits in the first bytes of messages of both directions,
// which appear at the same messages as in C UCX.
func TestFlowOnWire(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	tell := func(first byte) {
		t.Helper()
		p.tell(first)
		ucttest.Settle(h)
	}
	send := func(want error) {
		t.Helper()
		var err error
		ucttest.Until(t, "completions", func() bool {
			err = p.ep.AMShort(5, 0, nil, 0, nil)
			return err == want
		}, h)
	}
	expect := func(n int, special map[int]byte) {
		t.Helper()
		got := p.Received()
		if len(got) != n {
			t.Fatalf("%d messages, want %d", len(got), n)
		}
		for k, m := range got {
			want := byte(5)
			if s, ok := special[k+1]; ok {
				want = s
			}
			if m[0] != want {
				t.Fatalf("message %d begins with %#x, want %#x", k+1, m[0], want)
			}
		}
	}
	for range 512 {
		send(nil)
	}
	send(ucs.ErrNoResource)
	ucttest.Settle(h)
	send(ucs.ErrNoResource) // completions do not open the window
	expect(512, map[int]byte{257: 0x25, 385: 0x45})
	tell(0xe0)
	for range 300 {
		send(nil)
	}
	expect(300, map[int]byte{257: 0x25})
	// A grant may be part of a message; it fills the window whatever is left of it.
	h.Handle(t, 9, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	tell(0x89)
	for range 386 {
		send(nil)
	}
	expect(386, map[int]byte{257: 0x25, 385: 0x45})
	// A grant for a soft request goes with the next message, one for a hard request at once.
	tell(0x29)
	expect(0, nil)
	send(nil)
	send(nil)
	expect(2, map[int]byte{1: 0x85})
	tell(0x49)
	expect(1, map[int]byte{1: 0xe0})
	send(nil)
	expect(1, nil)
	tell(0x29)
	tell(0xe0)
	for range 256 {
		send(nil)
	}
	expect(256, map[int]byte{1: 0x85})
	tell(0x29)
	send(nil)
	expect(1, map[int]byte{1: 0xa5}) // a grant and a soft request in one byte
}

// TestGrantsFirst checks that grants which found no room are sent before messages of users.
func TestGrantsFirst(t *testing.T) {
	r := newRig(t, verbstest.Port{}).Slow(1)
	f := fixture(t, r, "RC_VERBS_TX_QUEUE_LEN", "2")
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	h.Handle(t, 9, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	for range 2 {
		check(t, p.ep.AMShort(5, 0, nil, 0, nil))
	}
	late := ucttest.NewPending(func() error { return p.ep.AMShort(6, 0, nil, 0, nil) })
	check(t, p.ep.PendingAdd(&late.Pending))
	// The request for a grant arrives while the queue is full of requests that do not complete.
	r.SetHook(verbstest.When(func(m *verbstest.Message) bool { return m.ToQP == uint32(p.QP.QPN()) }, verbstest.Fate{Hold: verbstest.UntilReleased}))
	p.tell(0x49)
	ucttest.Settle(h)
	r.SetHook(nil)
	r.Release()
	ucttest.Settle(h)
	var first []byte
	for _, m := range p.Received() {
		first = append(first, m[0])
	}
	if !bytes.Equal(first, []byte{5, 5, 0xe0, 6}) {
		t.Errorf("sent %x", first)
	}
}

// TestUnknownAndShort checks that messages with any first byte, without a handler, or shorter than
// handlers of short messages expect do no harm. An empty message ends the connection.
func TestUnknownAndShort(t *testing.T) {
	logtest.Watch(t).Expect("without handler")
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	got := h.Collect(t, 3)
	want := 0
	for b := range 256 {
		p.tell(byte(b))
		p.tell(byte(b), 1, 2, 3)
		if b&0x1f == 3 && b < 0xe0 {
			want += 2
		}
	}
	ucttest.Settle(h)
	if got.Len() != want || len(h.Failures) != 0 {
		t.Errorf("%d messages, want %d; failures %v", got.Len(), want, h.Failures)
	}
	for range 1000 { // unsolicited grants
		p.tell(0xe0)
	}
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	if s := p.send(nil); s != 0 {
		t.Fatal(s)
	}
	ucttest.Settle(h)
	if err := h.Failed(p.ep); !errors.Is(err, ucs.ErrMessageTruncated) {
		t.Errorf("after a message without a byte: %v", err)
	}
	if err := p.ep.AMShort(1, 2, nil, 0, nil); err == nil || err == ucs.ErrNoResource {
		t.Errorf("then a send: %v", err)
	}
}

// TestAnyMessages checks that arbitrary messages on one connection do not disturb another one.
func TestAnyMessages(t *testing.T) {
	logtest.Watch(t).Expect("without handler")
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t, verbstest.Port{})
			f := fixture(t, r, "RC_VERBS_RX_QUEUE_LEN", "16")
			h := f.Open(t)
			hostile, good := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
			rnd := rand.New(rand.NewPCG(seed, 1))
			var kept []*uct.AMDesc
			refuse := rnd.IntN(2) == 0
			heard := 0
			h.Handle(t, 7, func(_ *uct.Source, data []byte, desc *uct.AMDesc) error {
				if string(data) == "good" {
					heard++
					return nil
				}
				switch {
				case desc != nil && rnd.IntN(3) == 0:
					kept = append(kept, desc)
					return ucs.InProgress
				case refuse && rnd.IntN(50) == 0:
					return ucs.ErrInvalidParam
				}
				return nil
			})
			for n := range 300 {
				msg := make([]byte, rnd.IntN(300)+1)
				for k := range msg {
					msg[k] = byte(rnd.Uint32())
				}
				if rnd.IntN(2) == 0 {
					msg[0] = msg[0]&0xe0 | 7
				}
				if h.Failed(hostile.ep) == nil {
					hostile.send(msg)
				}
				good.tell(append([]byte{7}, "good"...)...)
				if rnd.IntN(4) == 0 && len(kept) > 0 {
					kept[0].Release()
					kept = kept[1:]
				}
				ucttest.Until(t, "the other connection's messages", func() bool { return heard > n }, h)
				hostile.Received()
			}
			if len(h.Failures) > 1 || h.Failed(good.ep) != nil {
				t.Errorf("failures: %v", h.Failures)
			}
			for _, d := range kept {
				d.Release()
			}
		})
	}
}

// TestTooLong checks that a message longer than the buffers ends its connection only.
func TestTooLong(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "IB_SEG_SIZE", "1024")
	h := f.Open(t)
	p, other := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	got := h.Collect(t, 1)
	p.send(append([]byte{1}, make([]byte, 4000)...))
	ucttest.Settle(h)
	if h.Failed(p.ep) == nil || got.Len() != 0 {
		t.Errorf("failed: %v; %d messages", h.Failed(p.ep), got.Len())
	}
	other.tell(append([]byte{1}, make([]byte, 1023)...)...)
	got.Wait(t, 1, h)
	if h.Failed(other.ep) != nil {
		t.Error("and with it another one")
	}
}

// TestPutWithImmediate checks that the receive buffer which a put with immediate data consumes is
// not delivered as a message: it still holds data of another peer.
func TestPutWithImmediate(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r, "RC_VERBS_RX_QUEUE_LEN", "2")
	h := f.Open(t)
	p, other := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
	got := h.Collect(t, 1)
	for range 4 { // fill every buffer
		other.tell(1, 'p', 'r', 'i', 'v', 'a', 't', 'e')
	}
	got.Wait(t, 4, h)
	mem := rigtest.Must(h.Domain.Register(make([]byte, 64), uct.AccessAll))(t)
	defer h.Domain.Deregister(mem)
	key := rigtest.Must(h.Domain.AppendKey(nil, mem))(t)
	_, err := p.QP.PostSend([]verbs.SendWR{{
		Opcode: verbs.WRRDMAWriteWithImm, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.Outgoing(make([]byte, 8))},
		RemoteAddr: mem.(*memory.Region).Addr(), RKey: verbs.RKey(binary.LittleEndian.Uint32(key)), Imm: 7,
	}})
	check(t, err)
	if s := p.Done(h); s != verbs.WCSuccess {
		t.Fatal(s)
	}
	ucttest.Settle(h)
	if got.Len() != 4 || h.Failed(p.ep) == nil || h.Failed(other.ep) != nil {
		t.Errorf("%d messages, %+v", got.Len(), h.Failures)
	}
	other.tell(1, 2)
	got.Wait(t, 5, h)
}
