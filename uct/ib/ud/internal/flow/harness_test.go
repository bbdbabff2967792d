//go:build linux

package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// network carries packets between hosts, in an order that the test chooses.
type network struct {
	t     testing.TB
	hosts map[uint32]*host // by QPN
	air   []packet         // packets in flight, the oldest first
	now   int64
	sent  int
	drop  func(packet) bool // reports whether a posted packet is lost; nil: none is
	quiet bool              // skip the checks of watch and strict
	log   []string          // posted packets, if not nil
}

// packet is one datagram.
type packet struct {
	from, to *host
	data     []byte
}

func newNetwork(t testing.TB) *network {
	return &network{t: t, hosts: make(map[uint32]*host), now: int64(time.Second)}
}

// host is an interface with the layer above it.
type host struct {
	t    testing.TB
	net  *network
	it   *Iface
	name string
	qpn  uint32

	room     int // packets that the queue has room for, -1: any number
	busy     bool
	slots    [][]byte // data of messages
	marks    map[int32]bool
	freed    []int32
	conns    map[*Endpoint]*conn
	accepted []*Endpoint // passive endpoints, in the order of their creation
	refuse   bool        // no path to any peer
	onDone   func(e *Endpoint, slot int32, err error)
	onRoom   func(e *Endpoint)
}

// conn is the state of the layer above for an endpoint.
type conn struct {
	sent      uint64 // number of messages
	done      uint64
	lost      uint64
	got       []uint64
	slots     []int32 // slots in flight, in order
	connected int
	failed    error
	gone      bool
	rooms     int
	ended     int
	flushed   []int32
}

// add makes a host. Its device address contains its queue pair number.
func (n *network) add(qpn uint32, change ...func(*Config)) *host {
	h := &host{t: n.t, net: n, name: fmt.Sprintf("host%d", qpn), qpn: qpn, room: -1, conns: make(map[*Endpoint]*conn), marks: make(map[int32]bool)}
	cfg := Config{QPN: qpn, DevAddr: h.devAddr(), Origin: wire.NewOrigin(h.name, int(qpn))}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if h.it, err = NewIface(cfg, h); err != nil {
		n.t.Fatal(err)
	}
	h.it.Clock(n.now)
	n.hosts[qpn] = h
	return h
}

func (h *host) devAddr() []byte { return binary.BigEndian.AppendUint64([]byte{0x48}, uint64(h.qpn)) }

// peer returns the host as its peers address it.
func (h *host) peer(path uint8) Peer {
	p := Peer{QPN: h.qpn, Path: path}
	copy(p.Addr[:], h.devAddr())
	return p
}

func (h *host) of(e *Endpoint) *conn {
	c := h.conns[e]
	if c == nil {
		c = new(conn)
		h.conns[e] = c
	}
	return c
}

// post puts a packet in flight.
func (h *host) post(e *Endpoint, data []byte) bool {
	if h.room == 0 {
		return false
	}
	if h.room > 0 {
		h.room--
	}
	p := packet{from: h, to: h.net.hosts[e.qpn], data: append([]byte(nil), data...)}
	h.net.sent++
	h.net.watch(e, p)
	if h.net.log != nil {
		h.net.log = append(h.net.log, fmt.Sprintf("%s>%d %s", h.name, e.qpn, show(data)))
	}
	if p.to == nil || h.net.drop != nil && h.net.drop(p) {
		return true
	}
	h.net.air = append(h.net.air, p)
	return true
}

func (h *host) Post(e *Endpoint, pkt []byte, solicited bool) bool {
	ok := h.post(e, pkt)
	for i := range pkt {
		pkt[i] = 0xee // the memory belongs to the state machine
	}
	return ok
}

func (h *host) Repost(e *Endpoint, slot int32, hdr wire.Header) bool {
	data := append(make([]byte, wire.HeaderLen), h.slots[slot]...)
	hdr.Store(data)
	return h.post(e, data)
}

func (h *host) Busy(*Endpoint) bool { return h.busy }

func (h *host) Done(e *Endpoint, slot int32, err error) {
	c := h.of(e)
	if len(c.slots) == 0 || c.slots[0] != slot {
		h.t.Fatalf("%s: slot %d is done, in flight are %v", h.name, slot, c.slots)
	}
	c.slots = c.slots[1:]
	h.freed = append(h.freed, slot)
	switch {
	case h.marks[slot]:
		delete(h.marks, slot)
		c.flushed = append(c.flushed, slot)
	case err != nil:
		c.lost++
	default:
		c.done++
	}
	if h.onDone != nil {
		h.onDone(e, slot, err)
	}
}

func (h *host) Resolve(devAddr []byte, qpn uint32, path uint8) (Peer, bool) {
	if len(devAddr) != 9 || devAddr[0] != 0x48 {
		return Peer{}, false
	}
	p := Peer{QPN: qpn, Path: path}
	copy(p.Addr[:], devAddr)
	return p, true
}

func (h *host) Accept(e *Endpoint, devAddr []byte) bool {
	if h.refuse {
		return false
	}
	h.of(e)
	h.accepted = append(h.accepted, e)
	return true
}

func (h *host) Connected(e *Endpoint)         { h.of(e).connected++ }
func (h *host) Failed(e *Endpoint, err error) { h.of(e).failed = err }
func (h *host) Gone(e *Endpoint)              { h.of(e).gone = true }

func (h *host) Ended(e *Endpoint) {
	h.of(e).ended++
	e.Forget()
}

func (h *host) Room(e *Endpoint) {
	h.of(e).rooms++
	if h.onRoom != nil {
		h.onRoom(e)
	}
}

func (h *host) slot(b []byte) int32 {
	if n := len(h.freed); n != 0 {
		s := h.freed[n-1]
		h.freed = h.freed[:n-1]
		h.slots[s] = b
		return s
	}
	h.slots = append(h.slots, b)
	return int32(len(h.slots) - 1)
}

// send sends the next message of an endpoint, of at least 8 bytes. It reports whether the message
// was accepted.
func (h *host) send(e *Endpoint, size int) bool {
	if h.room == 0 || !e.CanSend() {
		e.WantRoom()
		return false
	}
	c := h.of(e)
	data := make([]byte, wire.HeaderLen+max(size, 8))
	binary.LittleEndian.PutUint64(data[wire.HeaderLen:], c.sent)
	s := h.slot(data[wire.HeaderLen:])
	c.slots = append(c.slots, s) // before Send, which may give back other slots
	hdr, ok := e.Send(s, uint8(c.sent%32), h.it.Large(len(data)), false)
	if !ok {
		h.t.Fatalf("%s: Send refuses what CanSend allows", h.name)
	}
	hdr.Store(data)
	c.sent++
	h.post(e, data)
	return true
}

// flush reports whether everything has been acknowledged. If not, mark is given back later.
func (h *host) flush(e *Endpoint) (mark int32, ok bool) {
	s := h.slot(nil)
	c := h.of(e)
	c.slots = append(c.slots, s)
	h.marks[s] = true
	if e.Flush(s) {
		c.slots = c.slots[:len(c.slots)-1]
		delete(h.marks, s)
		h.freed = append(h.freed, s)
		return 0, true
	}
	return s, false
}

func (h *host) open(to *host) *Endpoint {
	e, err := h.it.Open(to.peer(0))
	if err != nil {
		h.t.Fatal(err)
	}
	h.of(e)
	return e
}

// receive passes a packet to the state machine, and checks the message in it.
func (h *host) receive(p packet) {
	h.it.Clock(h.net.now)
	h.net.strict(h, p)
	e, id, data := h.it.Receive(p.data, &From{QPN: p.from.qpn})
	if e == nil {
		return
	}
	c := h.of(e)
	n := binary.LittleEndian.Uint64(data)
	if want := uint64(len(c.got)); n != want || id != uint8(n%32) {
		h.t.Fatalf("%s: message %d (id %d), want %d", h.name, n, id, want)
	}
	c.got = append(c.got, n)
}

// step delivers the oldest packet and lets its receiver answer. It returns false if no packet is in
// flight.
func (n *network) step() bool {
	if len(n.air) == 0 {
		return false
	}
	p := n.air[0]
	n.air = n.air[1:]
	p.to.receive(p)
	p.to.it.Dispatch()
	return true
}

// settle delivers all packets, and those that they cause.
func (n *network) settle() {
	n.dispatch()
	for i := 0; n.step(); i++ {
		if i > 1e5 {
			for _, l := range n.log[max(0, len(n.log)-60):] {
				n.t.Log(l)
			}
			n.t.Fatal("the network does not come to rest")
		}
		if i > 1e5-100 && n.log == nil {
			n.log = []string{}
		}
	}
}

func (n *network) dispatch() {
	for _, q := range n.order() {
		h := n.hosts[q]
		h.it.Clock(n.now)
		h.it.Dispatch()
	}
}

// order returns the hosts in a fixed order.
func (n *network) order() []uint32 {
	var qs []uint32
	for q := uint32(0); len(qs) < len(n.hosts); q++ {
		if n.hosts[q] != nil {
			qs = append(qs, q)
		}
	}
	return qs
}

// tick advances the time to the first timer of any host. It returns false if no timer is set.
func (n *network) tick() bool {
	at := int64(-1)
	for _, q := range n.order() {
		if due, ok := n.hosts[q].it.nextTimer(n.now); ok && (at < 0 || due < at) {
			at = due
		}
	}
	if at < 0 {
		return false
	}
	n.now = max(n.now, at)
	for _, q := range n.order() {
		h := n.hosts[q]
		h.it.Clock(n.now)
		h.it.Tick()
		h.it.Dispatch()
	}
	return true
}

// run delivers all packets, advancing the time, until nothing is in flight.
func (n *network) run() {
	n.settle()
	for i := 0; n.tick(); i++ {
		n.settle()
		if i > 1e5 {
			n.t.Fatal("something stays in flight")
		}
	}
}

// pass lets time pass. It calls hosts when their timers are due, and at least once a second.
func (n *network) pass(d time.Duration) {
	for end := n.now + int64(d); n.now < end; {
		next := min(n.now+int64(time.Second), end)
		for {
			at := int64(-1)
			for _, q := range n.order() {
				if due, ok := n.hosts[q].it.nextTimer(n.now); ok && (at < 0 || due < at) {
					at = due
				}
			}
			if at < 0 || at > next {
				break
			}
			n.tick()
			n.settle()
		}
		n.now = next
		for _, q := range n.order() {
			n.hosts[q].it.Clock(n.now)
			n.hosts[q].it.Tick()
		}
		n.settle()
	}
}

// watch checks posted packets for properties that peers rely on.
func (n *network) watch(e *Endpoint, p packet) {
	h := wire.Load(p.data)
	if n.quiet || p.to == nil {
		return
	}
	kind := h.Kind(len(p.data))
	if kind == wire.KindBad {
		n.t.Fatalf("%s posts %x", p.from.name, p.data)
	}
	if h.Dest() == wire.NullID {
		if _, err := wire.ParseCREQ(p.data); err != nil || kind != wire.KindCtl {
			n.t.Fatalf("%s posts a packet without destination: %x, %v", p.from.name, p.data, err)
		}
		return
	}
	if !e.is(connected) {
		n.t.Fatalf("%s posts on an endpoint that is not connected: %s", p.from.name, show(p.data))
	}
	if other := p.to.it.table.find(h.Dest()); other != nil && !h.Ack().Before(other.psn) {
		n.t.Fatalf("%s acknowledges %d, the peer has sent up to %d", p.from.name, h.Ack(), other.psn-1)
	}
	if numbered := kind == wire.KindAM || kind == wire.KindCtl || kind == wire.KindPut; numbered && h.PSN().After(e.psn) {
		n.t.Fatalf("%s posts number %d before %d", p.from.name, h.PSN(), e.psn)
	}
	if kind == wire.KindAM && e.psn.Since(e.acked) > e.it.cfg.MaxWindow+1 {
		n.t.Fatalf("%s has %d packets in flight", p.from.name, e.psn.Since(e.acked)-1)
	}
}

// strict fails if a packet would end the process of C UCX 1.13.1, if that were the receiver in the
// state of h (ud_ep.c of 1.13.1: uct_ud_ep_rx_creq, uct_ud_ep_rx_ctl, uct_ud_ep_process_ack).
func (n *network) strict(h *host, p packet) {
	if n.quiet || len(p.data) < wire.HeaderLen {
		return
	}
	abort := func(format string, args ...any) {
		n.t.Helper()
		n.t.Fatalf("%s would abort at %s: %s", h.name, show(p.data), fmt.Sprintf(format, args...))
	}
	hd := wire.Load(p.data)
	if hd.Dest() == wire.NullID {
		q, err := wire.ParseCREQ(p.data)
		if err != nil {
			abort("%v", err)
		}
		from, _ := h.Resolve(q.DevAddr, q.QPN, q.Path)
		e := h.it.peers.lookup(from, q.ConnSN)
		if e == nil {
			return
		}
		if e.is(connected) && e.dest != q.EP {
			abort("endpoint %d is connected to %d", e.id, e.dest)
		}
		if e.is(connected) && hd.PSN().After(e.got) {
			abort("number beyond %d", e.got)
		}
		return
	}
	e := h.it.table.find(hd.Dest())
	if e == nil {
		return
	}
	if !hd.Ack().Before(e.psn) {
		abort("it has sent up to %d", e.psn-1)
	}
	if hd.Kind(len(p.data)) == wire.KindCtl {
		q, err := wire.ParseCREP(p.data)
		if err != nil {
			abort("%v", err)
		}
		if e.is(connected) && e.dest != q.EP {
			abort("endpoint %d is connected to %d", e.id, e.dest)
		}
	}
}

// show returns a packet as text.
func show(b []byte) string {
	if len(b) < wire.HeaderLen {
		return fmt.Sprintf("%x", b)
	}
	h := wire.Load(b)
	s := ""
	switch h.Kind(len(b)) {
	case wire.KindAM:
		s = fmt.Sprintf("AM %d", h.AMID())
	case wire.KindAck:
		s = "ACK"
	case wire.KindNack:
		s = "NACK"
	case wire.KindPut:
		s = "PUT"
	case wire.KindCtl:
		if h.Dest() == wire.NullID {
			c, err := wire.ParseCREQ(b)
			s = fmt.Sprintf("CREQ ep %d sn %d", c.EP, c.ConnSN)
			if err != nil {
				s = "CREQ " + err.Error()
			}
		} else {
			c, err := wire.ParseCREP(b)
			s = fmt.Sprintf("CREP ep %d", c.EP)
			if err != nil {
				s = "CREP " + err.Error()
			}
		}
	default:
		s = "bad"
	}
	if h.AckReq() {
		s += " ACK_REQ"
	}
	dest := fmt.Sprint(h.Dest())
	if h.Dest() == wire.NullID {
		dest = "-"
	}
	return fmt.Sprintf("%s: %s psn %d ack %d", dest, s, h.PSN(), h.Ack())
}

// other returns the peer of a host's endpoint.
func (n *network) other(h *host, e *Endpoint) (*host, *Endpoint) {
	to := n.hosts[e.qpn]
	if to == nil {
		return nil, nil
	}
	return to, to.it.table.find(e.dest)
}

// same checks that everything sent on an endpoint was received by its peer, and that nothing is
// left in flight.
func (n *network) same(h *host, e *Endpoint) {
	n.t.Helper()
	to, o := n.other(h, e)
	if o == nil {
		n.t.Fatalf("%s: endpoint %d has no other end (%d)", h.name, e.id, e.dest)
		return
	}
	c, d := h.of(e), to.of(o)
	if uint64(len(d.got)) != c.sent || c.done != c.sent || !e.Idle() || len(c.slots) != 0 {
		n.t.Fatalf("%s: endpoint %d has sent %d, %d done, %d in flight; received %d", h.name, e.id, c.sent, c.done, len(c.slots), len(d.got))
	}
	if o.dest != e.id {
		n.t.Fatalf("%s: endpoint %d is connected to %d, that to %d", h.name, e.id, e.dest, o.dest)
	}
}

var errNonsense = errors.New("nonsense")
