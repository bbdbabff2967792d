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

// A replay runs the state machine in the place of one of two C processes whose packets were
// captured. The state machine receives what the other process sent, opens endpoints and sends
// messages when the C process did, and must post the same packets, byte for byte except for bytes
// that C does not fill in.
//
// A capture does not show when a process has handled a packet. This follows from the packets that
// it sent: received packets are held back until the state machine needs them to post the next
// packet of the capture. So no time passes for the state machine, and its timers do not run:
// retransmissions and probes that timers of C have caused are skipped. The other differences are
// those in doc.go.
type replay struct {
	t      *testing.T
	s      capturetest.Session
	server bool
	it     *Iface
	other  []byte // the peer's device address
	queue  []capturetest.Packet
	posts  [][]byte
	lossy  bool

	exact, repeats, probes, missing int // numbers of packets
}

func (r *replay) Post(e *Endpoint, pkt []byte, solicited bool) bool {
	r.posts = append(r.posts, bytes.Clone(pkt))
	return true
}

// Repost ignores retransmissions after a NACK, which C sends later.
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

// newReplay takes the addresses of both processes from the session.
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
	if cfg.DevAddr == nil { // this process has only answered
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

// feed gives the state machine the oldest packet that was held back.
func (r *replay) feed() bool {
	if len(r.queue) == 0 {
		return false
	}
	p := r.queue[0]
	r.queue = r.queue[1:]
	if h := wire.Load(p.Data); h.Kind(len(p.Data)) == wire.KindCtl && p.Kept < len(p.Data) {
		p.Data = wire.AppendCREP(nil, h, &wire.CREP{EP: crepOf(r.t, p)}) // no more was captured
	}
	r.it.Receive(bytes.Clone(p.Data), &From{QPN: p.SrcQPN})
	return true
}

// crepOf returns the id in a CREP, which the capture has only as text.
func crepOf(t *testing.T, p capturetest.Packet) (id uint32) {
	_, s, ok := strings.Cut(p.Text, "CREP[src_ep_id=")
	if _, err := fmt.Sscanf(s, "%d]", &id); !ok || err != nil {
		t.Fatalf("line %d: %s", p.Line, p.Text)
	}
	return id
}

// repeat records a retransmission caused by a timer of C. The first packet of one shrinks the
// window.
func (r *replay) repeat(e *Endpoint, psn wire.PSN) {
	r.repeats++
	if psn == e.acked+1 {
		e.shrink()
	}
}

// end returns the endpoint that has sent a packet, found by the packet's destination.
func (r *replay) end(dest uint32) *Endpoint {
	for _, e := range r.it.table.eps {
		if e != nil && e.is(connected) && e.dest == dest {
			return e
		}
	}
	return nil
}

// blank clears the bytes of control packets that C does not fill in.
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

// want makes the state machine post what it owes, and compares that with p.
func (r *replay) want(p capturetest.Packet) {
	r.t.Helper()
	if len(r.posts) == 0 {
		r.it.Dispatch()
	}
	data := blank(p.Data)
	if p.Kept < len(p.Data) && len(r.posts) != 0 && len(r.posts[0]) == len(data) { // the capture has only a part
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

// own handles a packet that the replayed process has sent.
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
		if len(r.posts) != 0 { // an acknowledgement; C sends it in a later round
			r.posts = nil
			e.owe(oweAck)
		}
	case wire.KindAck, wire.KindNack:
		if h.AckReq() {
			r.probes++ // caused by a timer or a flush; also acknowledges
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
			// C sends a NACK for the CREQ before a CREP that it has received.
			r.it.ready.drop(e, linkReady)
			e.owed = 0
			r.missing++
			return
		}
		for len(r.posts) == 0 && (e.got != h.Ack() || e.owed&(oweAck|oweNack) == 0 || e.owed&oweNack != nack) {
			if r.lossy && nack == 0 && e.owed&oweNack != 0 {
				e.owed &^= oweNack // sent earlier, and lost
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
		for h.PSN() != e.psn { // lost before the capture
			r.send(e, 0)
		}
		for e.got != h.Ack() && r.feed() {
		}
		for !e.CanSend() && r.feed() {
		}
		// Acknowledgements that the process may have received: packets with nothing else in
		// them.
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
			// Zero-copy messages always ask; after losses the window of C is unknown.
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
		e.owed &^= oweResend // by a NACK, which this side answers at once
		if !e.CanSend() && len(r.queue) == 0 && r.lossy {
			e.max = e.psn + 1 // C has lost fewer packets than the replay
		}
		if !e.CanSend() && !r.feed() {
			r.t.Fatalf("endpoint %d cannot send number %d, up to %d is acknowledged", e.id, e.psn, e.acked)
		}
	}
	h, _ := e.Send(0, id, false, false)
	return h
}

// TestCaptures replays sessions of both releases, in the place of either process.
func TestCaptures(t *testing.T) {
	for _, tc := range []struct {
		release, name string
		server        bool
		least         int // least number of equal packets
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
