//go:build linux

package rc

import (
	"testing"

	"pgregory.net/rapid"
)

func defaultLimits() flowLimits { return newFlowLimits(512, 4095, 0.5, 0.25, true) }

func TestFlowLimits(t *testing.T) {
	for _, c := range []struct {
		window, receives int
		want             flowLimits
	}{
		{512, 4095, flowLimits{window: 512, soft: 256, hard: 128}},
		{512, 100, flowLimits{window: 100, soft: 50, hard: 25}},
		{3, 4095, flowLimits{window: 3, soft: 1, hard: 1}},
		{1, 4095, flowLimits{window: 1, soft: 1, hard: 1}},
		{512, 2, flowLimits{window: 2, soft: 1, hard: 1}},
	} {
		if l := newFlowLimits(c.window, c.receives, 0.5, 0.25, true); l != c.want {
			t.Errorf("window %d, %d receives: %+v, want %+v", c.window, c.receives, l, c.want)
		}
	}
}

// TestFlowCaptured compares the first bytes of messages with those that C UCX 1.22.0 sent on
// soft-RoCE (a program that sends tagged messages of 8 bytes over rc_verbs), with grants as in the
// capture. The map want has all bytes with a flow control bit.
func TestFlowCaptured(t *testing.T) {
	const eager = 2
	l := defaultLimits()
	var client, server flow
	client.open(&l)
	server.open(&l)
	want := map[int]byte{0x100: 0x22, 0x180: 0x42, 0x2c3: 0x22, 0x343: 0x42, 0x54d: 0x22}
	grants := map[int]byte{451: 0xe0, 900: 0xe0, 1101: 0x82} // by number of messages sent before
	for n := range 0x54e {
		if g, ok := grants[n]; ok {
			if reply, pure := client.received(g, &l); reply || pure != (g == 0xe0) {
				t.Errorf("%#x: reply %v, pure %v", g, reply, pure)
			}
		}
		b, ok := client.bits(&l)
		if !ok {
			t.Fatalf("no window for message %#x", n)
		}
		client.sent()
		b |= eager
		if w, ok := want[n]; ok && b != w || !ok && b != eager {
			t.Errorf("message %#x begins with %#x, want %#x", n, b, w)
		}
		if b != eager {
			if reply, pure := server.received(b, &l); reply != (b == 0x42) || pure {
				t.Errorf("%#x: reply %v, pure %v", b, reply, pure)
			}
		}
		if n == 0x400 {
			// A soft request is still owed a grant, although hard requests were
			// answered since.
			for _, want := range []byte{0x80, 0} {
				if b, ok := server.bits(&l); !ok || b != want {
					t.Errorf("the server's message has %#x, %v, want %#x", b, ok, want)
				}
				server.sent()
			}
		}
	}
}

// TestFlowBits checks the effect of every first byte.
func TestFlowBits(t *testing.T) {
	l := defaultLimits()
	for b := range 256 {
		f := flow{left: -3}
		reply, pure := f.received(byte(b), &l)
		grant, soft, hard := b&0x80 != 0, b&0x20 != 0, b&0x40 != 0
		if pure != (b >= 0xe0) || reply != (hard && !soft) || f.owed != (soft && !pure) {
			t.Errorf("%#x: reply %v, pure %v, owed %v", b, reply, pure, f.owed)
		}
		if want := map[bool]int32{true: 512, false: -3}[grant]; f.left != want {
			t.Errorf("%#x: window of %d, want %d", b, f.left, want)
		}
	}
}

// TestFlowOff checks that without flow control no message asks for a grant or waits for one.
func TestFlowOff(t *testing.T) {
	l := newFlowLimits(4, 4, 0.5, 0.25, false)
	var f flow
	f.open(&l)
	for n := range 100 {
		if b, ok := f.bits(&l); b != 0 || !ok {
			t.Fatalf("message %d: %#x, %v", n, b, ok)
		}
		f.sent()
	}
}

// TestFlowModel has two ends with windows of any size send each other messages. These arrive in
// order after any delay, and grants may be delayed too. No end has more messages in flight than its
// window, and once all have arrived neither waits for a grant.
func TestFlowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type end struct {
			l     flowLimits
			f     flow
			inbox []byte // in flight to this end
			sent  int    // messages since the last grant received
			due   bool   // a grant waits for room
		}
		var ends [2]*end
		for k := range ends {
			e := &end{l: newFlowLimits(rapid.IntRange(1, 40).Draw(t, "window"), 4095, rapid.Float64Range(0.3, 0.9).Draw(t, "soft"), 0.25, true)}
			e.f.open(&e.l)
			ends[k] = e
		}
		send := func(e, to *end) bool {
			b, ok := e.f.bits(&e.l)
			if !ok {
				return false
			}
			e.f.sent()
			if e.sent++; e.sent > int(e.l.window) {
				t.Fatalf("%d messages without a grant, the window is %d", e.sent, e.l.window)
			}
			if b == fcPure {
				t.Fatal("a message looks like a grant")
			}
			to.inbox = append(to.inbox, b)
			return true
		}
		receive := func(e, to *end, room bool) {
			if e.due && room {
				to.inbox = append(to.inbox, fcPure)
				e.due = false
			}
			if len(e.inbox) == 0 {
				return
			}
			b := e.inbox[0]
			e.inbox = e.inbox[1:]
			if b&fcGrant != 0 {
				e.sent = 0
			}
			reply, _ := e.f.received(b, &e.l)
			switch {
			case reply && room:
				to.inbox = append(to.inbox, fcPure)
			case reply:
				e.due = true
			}
		}
		pick := func() (e, to *end) {
			k := rapid.IntRange(0, 1).Draw(t, "end")
			return ends[k], ends[1-k]
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(*rapid.T) { e, to := pick(); send(e, to) },
			"burst": func(*rapid.T) {
				e, to := pick()
				for send(e, to) {
				}
			},
			"receive": func(t *rapid.T) { e, to := pick(); receive(e, to, rapid.Bool().Draw(t, "room")) },
		})
		for range 1000 {
			receive(ends[0], ends[1], true)
			receive(ends[1], ends[0], true)
		}
		if !send(ends[0], ends[1]) || !send(ends[1], ends[0]) {
			t.Fatal("all has arrived, and somebody waits for a grant")
		}
	})
}
