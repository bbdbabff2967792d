//go:build linux

package flow

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/capturetest"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// A replay puts the machine in the place of one of two C processes whose conversation
// was captured. It is given what the other one sent, opens endpoints and sends messages
// when that process did, and has to post the same packets, byte for byte but for what C
// does not fill in.
//
// A capture does not say when a process has looked at a packet. That shows in what it
// sends: packets are held back until the machine, given them, can post the one that
// comes next. So none of the machine's time passes, and no timers run: repetitions and
// questions that C's timers have caused are left out. Otherwise the differences are
// those that doc.go names.
type replay struct {
	t      *testing.T
	s      capturetest.Session
	server bool
	it     *Iface
	other  []byte // the peer's device address
	queue  []capturetest.Packet
	posts  [][]byte
	lossy  bool

	exact, repeats, probes, missing int // packets
}

func (r *replay) Post(e *Endpoint, pkt []byte, solicited bool) bool {
	r.posts = append(r.posts, bytes.Clone(pkt))
	return true
}

// Repost is what a NACK causes at once, and in C later.
func (r *replay) Repost(*Endpoint, int32, wire.Header) bool { return true }
func (r *replay) Busy(*Endpoint) bool                       { return false }
func (r *replay) Done(*Endpoint, int32, error)              {}
func (r *replay) Accept(e *Endpoint, devAddr []byte) bool   { return bytes.Equal(devAddr, r.other) }
func (r *replay) Connected(*Endpoint)                       {}
func (r *replay) Room(*Endpoint)                            {}
func (r *replay) Failed(e *Endpoint, err error)             { r.t.Fatal(err) }
func (r *replay) Ended(*Endpoint)                           {}
func (r *replay) Gone(e *Endpoint)                          {}
func (r *replay) Resolve(_ []byte, qpn uint32, p uint8) (Peer, bool) {
	return Peer{QPN: qpn, Path: p}, true
}

// newReplay looks into the session for what the process calls itself.
func newReplay(t *testing.T, s capturetest.Session, server bool) *replay {
	r := &replay{t: t, s: s, server: server, lossy: s.Name == "udloss"}
	cfg := Config{}
	for _, p := range s.Packets {
		if wire.Load(p.Data).Dest() != wire.NullID {
			continue
		}
		q, err := wire.ParseCREQ(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		if p.FromServer == server {
			cfg = Config{QPN: p.SrcQPN, DevAddr: q.DevAddr, Origin: q.Origin}
		} else {
			r.other = q.DevAddr
		}
	}
	if cfg.DevAddr == nil { // it has only answered
		for _, p := range s.Packets {
			if p.FromServer == server {
				cfg.QPN = p.SrcQPN
				if q, err := wire.ParseCREP(p.Data); err == nil {
					cfg.Origin = q.Origin
				}
			}
		}
	}
	var err error
	if r.it, err = NewIface(cfg, r); err != nil {
		t.Fatal(err)
	}
	r.it.Clock(1e9)
	return r
}

// feed gives the machine the oldest packet that was held back.
func (r *replay) feed() bool {
	if len(r.queue) == 0 {
		return false
	}
	p := r.queue[0]
	r.queue = r.queue[1:]
	if h := wire.Load(p.Data); h.Kind(len(p.Data)) == wire.KindCtl && p.Kept < len(p.Data) {
		p.Data = wire.AppendCREP(nil, h, &wire.CREP{EP: crepOf(r.t, p)}) // the capture has no more
	}
	r.it.Receive(bytes.Clone(p.Data), &From{QPN: p.SrcQPN})
	return true
}

// crepOf is the id in a CREP that the capture tells only in words.
func crepOf(t *testing.T, p capturetest.Packet) (id uint32) {
	_, s, ok := strings.Cut(p.Text, "CREP[src_ep_id=")
	if _, err := fmt.Sscanf(s, "%d]", &id); !ok || err != nil {
		t.Fatalf("line %d: %s", p.Line, p.Text)
	}
	return id
}

// repeat is told that a timer of C's has made it send a packet again. Its window shrinks
// with the first one.
func (r *replay) repeat(e *Endpoint, psn wire.PSN) {
	r.repeats++
	if psn == e.acked+1 {
		e.shrink()
	}
}

// end is the endpoint that a packet of the process is from: by its destination.
func (r *replay) end(dest uint32) *Endpoint {
	for _, e := range r.it.table.eps {
		if e != nil && e.is(connected) && e.dest == dest {
			return e
		}
	}
	return nil
}

// blank leaves out what C does not fill in, of control packets.
func blank(b []byte) []byte {
	b = bytes.Clone(b)
	if h := wire.Load(b); h.Kind(len(b)) == wire.KindCtl && len(b) >= wire.HeaderLen+wire.ControlLen {
		ctl := b[wire.HeaderLen:]
		clear(ctl[1:4])
		if h.Dest() == wire.NullID {
			clear(ctl[10:12])
			clear(ctl[17:20])
		} else {
			clear(ctl[8:20])
		}
	}
	return b
}

// want lets the machine post what it owes, which has to be this.
func (r *replay) want(p capturetest.Packet) {
	r.t.Helper()
	if len(r.posts) == 0 {
		r.it.Dispatch()
	}
	data := blank(p.Data)
	if p.Kept < len(p.Data) && len(r.posts) != 0 && len(r.posts[0]) == len(data) { // the capture left out the rest
		r.posts[0], data = r.posts[0][:p.Kept], data[:p.Kept]
	}
	if len(r.posts) == 0 || !bytes.Equal(blank(r.posts[0]), data) {
		r.t.Errorf("line %d: want %s", p.Line, p.Text)
		for _, b := range r.posts {
			r.t.Errorf("line %d: posts %x", p.Line, b)
		}
		r.t.FailNow()
	}
	r.posts = r.posts[1:]
	r.exact++
}

// own goes through a packet that the process has sent.
func (r *replay) own(p capturetest.Packet) {
	h := wire.Load(p.Data)
	kind := h.Kind(len(p.Data))
	if h.Dest() == wire.NullID {
		q, _ := wire.ParseCREQ(p.Data)
		if e := r.it.table.find(q.EP); e != nil {
			r.repeat(e, h.PSN())
			return
		}
		if _, err := r.it.Open(Peer{QPN: p.DestQPN, Path: q.Path}); err != nil {
			r.t.Fatal(err)
		}
		r.want(p)
		return
	}
	var e *Endpoint
	if r.lossy && kind == wire.KindCtl && h.PSN() == 2 && r.it.Endpoints() == 0 { // its CREQ was lost
		if _, err := r.it.Open(Peer{QPN: p.DestQPN}); err != nil {
			r.t.Fatal(err)
		}
		r.it.Dispatch()
		r.posts = nil
	}
	for {
		if e = r.end(h.Dest()); e != nil {
			break
		}
		if !r.feed() {
			r.t.Fatalf("line %d: nobody sends %s", p.Line, p.Text)
		}
	}
	switch kind {
	case wire.KindCtl:
		if e.owed&oweCREP == 0 {
			r.repeat(e, h.PSN())
			return
		}
		for e.got != h.Ack() && r.feed() {
		}
		r.want(p)
		if len(r.posts) != 0 { // an acknowledgement; C goes round before it sends more
			r.posts = nil
			e.owe(oweAck)
		}
	case wire.KindAck, wire.KindNack:
		if h.AckReq() {
			r.probes++ // by a timer, or a flush; it acknowledges as well
			for e.got != h.Ack() && r.feed() {
			}
			e.owed &^= oweTell
			return
		}
		nack := owed(0)
		if kind == wire.KindNack {
			nack = oweNack
		}
		if nack != 0 && e.got == 2 && h.Ack() == 2 && h.PSN() == e.psn {
			// C misses the CREQ before the CREP that it has just taken.
			r.it.ready.drop(e, linkReady)
			e.owed = 0
			r.missing++
			return
		}
		for len(r.posts) == 0 && (e.got != h.Ack() || e.owed&(oweAck|oweNack) == 0 || e.owed&oweNack != nack) {
			if r.lossy && nack == 0 && e.owed&oweNack != 0 {
				e.owed &^= oweNack // it went before, and was lost
			} else if !r.feed() {
				break
			}
		}
		r.want(p)
	case wire.KindAM, wire.KindPut:
		if h.PSN().Before(e.psn) {
			r.repeat(e, h.PSN())
			return
		}
		for h.PSN() != e.psn { // lost before it was captured
			r.send(e, 0)
		}
		for e.got != h.Ack() && r.feed() {
		}
		for !e.CanSend() && r.feed() {
		}
		// Acknowledgements that it may have seen: those that bring nothing else.
		for e.ask() != h.AckReq() && len(r.queue) != 0 {
			if k := wire.Load(r.queue[0].Data).Kind(len(r.queue[0].Data)); k != wire.KindAck && k != wire.KindNack {
				break
			}
			r.feed()
		}
		got := wire.NewHeader(e.dest, wire.FlagPut, e.psn, e.got).WithAck(e.got, e.ask())
		if kind == wire.KindAM {
			got = r.send(e, h.AMID())
		} else {
			e.owed &^= oweAck | oweProbe
			e.push(none, 0, nodeKeepalive)
		}
		if got.AckReq() != h.AckReq() && (h.AckReq() || r.lossy) {
			// Messages without a copy ask always; and after losses the window is unknown.
			got ^= wire.FlagAckReq
			r.missing++
		}
		if got != h {
			r.t.Fatalf("line %d: header %016x, want %s", p.Line, uint64(got), p.Text)
		}
		r.exact++
	}
}

func (r *replay) send(e *Endpoint, id uint8) wire.Header {
	for !e.CanSend() {
		e.owed &^= oweResend // by a NACK, at once
		if !e.CanSend() && len(r.queue) == 0 && r.lossy {
			e.max = e.psn + 1 // it has lost less than we
		}
		if !e.CanSend() && !r.feed() {
			r.t.Fatalf("endpoint %d cannot send number %d, up to %d is acknowledged", e.id, e.psn, e.acked)
		}
	}
	h, _ := e.Send(0, id, false, false)
	return h
}

// TestCaptures replays sessions of both releases, in both places.
func TestCaptures(t *testing.T) {
	for _, tc := range []struct {
		release, name string
		server        bool
		least         int // packets that have to be the same
	}{
		{"1.13.1", "ud", false, 25}, {"1.13.1", "ud", true, 17},
		{"1.22.0", "ud", false, 26}, {"1.22.0", "ud", true, 17},
		{"1.13.1", "udwin", false, 49}, {"1.13.1", "udwin", true, 11},
		{"1.22.0", "udwin", false, 49}, {"1.22.0", "udwin", true, 11},
		{"1.13.1", "udkeep", false, 7}, {"1.13.1", "udkeep", true, 6},
		{"1.22.0", "udkeep", false, 7}, {"1.22.0", "udkeep", true, 7},
		{"1.13.1", "udloss", false, 35}, {"1.13.1", "udloss", true, 26},
		{"1.22.0", "udloss", false, 50}, {"1.22.0", "udloss", true, 18},
		{"1.22.0", "udx-122", false, 7}, {"1.22.0", "udx-122", true, 6},
		{"1.13.1", "rc", false, 4}, {"1.13.1", "rc", true, 6},
		{"1.22.0", "rc", false, 8}, {"1.22.0", "rc", true, 4},
		{"1.13.1", "rckeep", false, 9}, {"1.13.1", "rckeep", true, 9},
		{"1.22.0", "rckeep", false, 9}, {"1.22.0", "rckeep", true, 9},
		{"1.22.0", "rcx-113", false, 5}, {"1.22.0", "rcx-113", true, 5},
	} {
		t.Run(fmt.Sprintf("%s/%s/server=%v", tc.release, tc.name, tc.server), func(t *testing.T) {
			s, err := capturetest.Find(tc.release, tc.name)
			if err != nil {
				t.Fatal(err)
			}
			r := newReplay(t, s, tc.server)
			for _, p := range s.Packets {
				if p.FromServer == tc.server {
					r.own(p)
				} else {
					r.queue = append(r.queue, p)
				}
			}
			for r.feed() {
			}
			t.Logf("%d the same, %d repeated, %d questions, %d others", r.exact, r.repeats, r.probes, r.missing)
			if r.exact < tc.least {
				t.Errorf("%d packets the same, want %d", r.exact, tc.least)
			}
			if c := r.it.Counters; c.Malformed+c.Unknown+c.WrongSource+c.WrongAck+c.WrongNumber+c.WrongControl+c.Refused != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}
