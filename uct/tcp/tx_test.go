//go:build linux

package tcp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// outgoing connects an endpoint of h to a raw peer.
func outgoing(t testing.TB, h *host) (*endpoint, *rawPeer) {
	t.Helper()
	return listenRaw(t, h, false).connect(h)
}

// connect connects an endpoint of h to the listener.
func (l *rawListener) connect(h *host) (*endpoint, *rawPeer) {
	l.t.Helper()
	ep := l.endpoint(h)
	p := l.accept(h)
	p.want(flight(h.iface.addr, ep.sn))
	p.send(ack)
	until(l.t, "connect", connected(ep), h)
	h.w.Progress()
	return ep, p
}

// narrow is outgoing toward a peer whose receive window is small.
func narrow(t testing.TB, h *host) (*endpoint, *rawPeer) {
	t.Helper()
	l := listenRaw(t, h, false)
	unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	return l.connect(h)
}

// pendingBytes reads what the host has sent so far, without progressing the host.
func (p *rawPeer) pendingBytes() []byte {
	b := make([]byte, 1<<20)
	n, err := unix.Read(p.fd, b)
	if err != nil {
		return nil
	}
	return b[:n]
}

func short(n int) []byte { return am(1, strings.Repeat("\x00", 8)+strings.Repeat("s", n)) }

// TestBatching: the first send on an idle connection is written at once. Later sends of the same
// round are written at its end, and do not complete before.
func TestBatching(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	first, second, third := newDone(), newDone(), newDone()
	if err := ep.AMShort(1, 0, nil, 0, &first.comp); err != nil {
		t.Fatalf("first send: %v", err)
	}
	if got := p.pendingBytes(); !bytes.Equal(got, short(0)) {
		t.Fatalf("after the first send: %x", got)
	}
	if err := ep.AMShort(1, 0, []byte("s"), 0, &second.comp); err != ucs.InProgress {
		t.Fatalf("second send: %v", err)
	}
	if _, err := ep.AMBcopy(2, text("b"), 0, &third.comp); err != ucs.InProgress {
		t.Fatalf("third send: %v", err)
	}
	if got := p.pendingBytes(); len(got) != 0 || second.n+third.n != 0 {
		t.Fatalf("without progress %x was sent, %d and %d completions", got, second.n, third.n)
	}
	h.w.Progress()
	if got := p.pendingBytes(); !bytes.Equal(got, append(short(1), am(2, "b")...)) {
		t.Fatalf("after progress: %x", got)
	}
	if first.n != 0 || second.n != 1 || third.n != 1 {
		t.Errorf("completions: %d, %d, %d", first.n, second.n, third.n)
	}
	// A single send of the next round is written at once again.
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Errorf("send in the next round: %v", err)
	}
}

// TestBatchEnds: a batch is written by Flush, Arm, a zero-copy message, SendNow, a full buffer and
// progress. What handlers send is written in the same round.
func TestBatchEnds(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	fill := func() {
		t.Helper()
		h.w.Progress()
		p.pendingBytes()
		if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
		if err := ep.AMShort(1, 0, nil, 0, nil); err != ucs.InProgress {
			t.Fatal(err)
		}
	}
	both := append(short(0), short(0)...)
	want := func(what string, bytesWanted ...[]byte) {
		t.Helper()
		if diff := cmp.Diff(bytes.Join(bytesWanted, nil), p.pendingBytes()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	fill()
	if err := ep.Flush(uct.FlushLocal, nil); err != nil {
		t.Errorf("flush: %v", err)
	}
	want("flush", both)

	fill()
	if err := h.w.Arm(); err != nil {
		t.Errorf("arm: %v", err)
	}
	want("arm", both)

	fill()
	if err := ep.AMZcopy(3, text("h"), []uct.IOV{{Data: []byte("z")}, {}, {Data: []byte("c")}}, 0, nil); err != nil {
		t.Errorf("zcopy: %v", err)
	}
	want("zcopy", both, am(3, "hzc"))

	fill()
	if err := ep.AMShort(1, 0, []byte("s"), uct.SendNow, nil); err != nil {
		t.Errorf("short now: %v", err)
	}
	want("short now", both, short(1))
	fill()
	if n, err := ep.AMBcopy(4, text("now"), uct.SendNow, nil); err != nil || n != 3 {
		t.Errorf("bcopy now: %d, %v", n, err)
	}
	want("bcopy now", both, am(4, "now"))

	fill()
	big := strings.Repeat("x", 8000)
	sent := []byte(nil)
	for len(p.pendingBytes()) == 0 || len(sent) < 2*txBufferSize {
		if _, err := ep.AMBcopy(5, text(big), 0, nil); err != ucs.InProgress {
			t.Fatalf("bcopy: %v", err)
		}
		sent = append(sent, big...)
	}

	h.w.Progress()
	p.pendingBytes()
	h.iface.SetAMHandler(9, func(*uct.Source, []byte, *uct.AMDesc) error {
		ep.AMShort(1, 0, nil, 0, nil)
		return ep.AMShort(1, 0, nil, 0, nil)
	})
	p.send(req(ep.peer, 0), am(9, ""))
	p.want(ack, both)
}

// TestLongShort: short messages with much data are sent from the caller's memory.
func TestLongShort(t *testing.T) {
	for _, thresh := range []string{"SENDV_THRESH=2k", "SENDV_THRESH=inf", "SENDV_THRESH=0"} {
		h := newHost(t, "", thresh)
		ep, p := outgoing(t, h)
		for _, n := range []int{0, 1, 2048, 2049, 8184} {
			if err := ep.AMShort(1, 0, bytes.Repeat([]byte("s"), n), 0, nil); err != nil {
				t.Errorf("%s: %d bytes: %v", thresh, n, err)
			}
			p.want(short(n))
			h.w.Progress()
		}
	}
}

// block sends until the connection accepts nothing more, and returns what was sent.
func block(t *testing.T, ep *endpoint) (sent []byte, dones []*done) {
	t.Helper()
	data := strings.Repeat("f", 8192)
	for {
		d := newDone()
		_, err := ep.AMBcopy(6, text(data), 0, &d.comp)
		switch err {
		case ucs.InProgress:
			dones = append(dones, d)
			fallthrough
		case nil:
			sent = append(sent, am(6, data)...)
		case ucs.ErrNoResource:
			return sent, dones
		default:
			t.Fatal(err)
		}
	}
}

// TestBlocked: the peer does not read. All output waits in order and arrives whole.
func TestBlocked(t *testing.T) {
	h := newHost(t, "", "SNDBUF=16k")
	ep, p := narrow(t, h)
	want, dones := block(t, ep)
	if err := ep.AMShort(1, 0, make([]byte, 8184), uct.SendNow, nil); err != ucs.ErrNoResource {
		t.Errorf("short now: %v", err)
	}
	if _, err := ep.AMBcopy(1, text("x"), uct.SendNow, nil); err != ucs.ErrNoResource {
		t.Errorf("bcopy now: %v", err)
	}
	flush := newDone()
	if err := ep.Flush(uct.FlushLocal, &flush.comp); err != ucs.InProgress {
		t.Errorf("flush: %v", err)
	}
	order := []string{}
	q := &queued{ep: ep, order: &order}
	for i := range 3 {
		q.add(t, string(rune('a'+i)))
	}
	// No send overtakes the waiting requests.
	if err := ep.AMShort(1, 0, nil, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("send behind the queue: %v", err)
	}
	if err := ep.Check(nil); err != nil {
		t.Errorf("check of a busy connection: %v", err)
	}
	for h.w.Progress() > 0 { // the sockets still accept some
	}
	if h.w.Arm() != nil {
		t.Error("a blocked connection keeps the worker from sleeping")
	}
	p.want(want)
	p.want(am(7, "a"), am(7, "b"), am(7, "c"))
	until(t, "flush", func() bool { return flush.n == 1 }, h)
	for i, d := range dones {
		if d.n != 1 || d.comp.Err != nil {
			t.Errorf("send %d told %d times, %v", i, d.n, d.comp.Err)
		}
	}
	if strings.Join(order, "") != "abc" {
		t.Errorf("dispatched %v", order)
	}
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Errorf("send after all: %v", err)
	}
}

// queued is a pending request.
type queued struct {
	ep    *endpoint
	order *[]string
	list  []*pendingText
}

type pendingText struct {
	uct.Pending
	q *queued
	s string
}

func (q *queued) add(t *testing.T, s string) {
	t.Helper()
	p := &pendingText{q: q, s: s}
	p.Owner = p
	if err := q.ep.PendingAdd(&p.Pending); err != nil {
		t.Fatal(err)
	}
	q.list = append(q.list, p)
}

func (p *pendingText) Dispatch(*uct.Pending) error {
	_, err := p.q.ep.AMBcopy(7, text(p.s), 0, nil)
	if err == nil || err == ucs.InProgress {
		*p.q.order = append(*p.q.order, p.s)
		return nil
	}
	return err
}

// TestPartialZcopy: a zero-copy message that was partly written continues from the caller's memory,
// and later output stays behind it.
func TestPartialZcopy(t *testing.T) {
	h := newHost(t, "", "SNDBUF=16k", "RX_SEG_SIZE=4m")
	ep, p := outgoing(t, h)
	var parts []uct.IOV
	var all strings.Builder
	for i := range 6 {
		s := strings.Repeat(string(rune('A'+i)), 500000+i)
		parts = append(parts, uct.IOV{Data: []byte(s)})
		all.WriteString(s)
	}
	d := newDone()
	if err := ep.AMZcopy(3, text("head"), parts, 0, &d.comp); err != ucs.InProgress {
		t.Fatal(err)
	}
	if err := ep.AMShort(1, 0, nil, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("send behind a message that is under way: %v", err)
	}
	// Control frames wait behind it.
	p.send(req(ep.peer, 0), putReq(0, 0, 0))
	h.w.Progress()
	p.want(am(3, "head"+all.String()), ack, appendPutAck(nil, 0))
	until(t, "completion", func() bool { return d.n == 1 }, h)
	if ep.conn.zc.iov != nil || ep.conn.out != nil {
		t.Error("memory of the caller is still referenced")
	}
}

// TestBoundedWrite: a round writes a bounded number of times even if the kernel would accept more.
// No event follows, so the worker must not sleep.
func TestBoundedWrite(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	if err := unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		needtest.Right(t, fmt.Sprintf("the right to have large socket buffers (CAP_NET_ADMIN): %v", err))
	}
	ep, p := l.connect(h)
	if err := unix.SetsockoptInt(int(ep.conn.fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20); err != nil {
		needtest.Right(t, fmt.Sprintf("the right to have large socket buffers (CAP_NET_ADMIN): %v", err))
	}
	data := make([]byte, 2*maxSends*maxSend)
	d := newDone()
	if err := ep.PutZcopy([]uct.IOV{{Data: data}}, 0, nil, &d.comp); err != ucs.InProgress {
		t.Fatal(err)
	}
	if c := ep.conn; c.blocked || c.written == c.accepted {
		t.Fatalf("%d of %d bytes written, blocked: %v", c.written, c.accepted, c.blocked)
	}
	for h.w.Arm() != nil {
		h.w.Progress()
	}
	if c := ep.conn; !c.blocked && c.written != c.accepted {
		t.Error("armed with output that nothing will write")
	}
	p.recv(hdrLen + putReqLen + len(data))
}

// TestOwedAtOnce: all control frames that can be due at once fit into the space reserved for them.
func TestOwedAtOnce(t *testing.T) {
	h := newHost(t, "", "TX_SEG_SIZE=60k")
	ep, p := outgoing(t, h)
	c := ep.conn
	ep.AMShort(1, 0, nil, 0, nil)
	// Fill the buffer to its end.
	big := strings.Repeat("b", len(c.room(0))+txBufferSize-60)
	b := c.room(len(big))
	n := copy(b[len(b):cap(b)], big)
	c.queued(n)
	c.iface.addr.v6 = true // the longest form
	c.owed = owedAck | owedAckReq | owedReq | owedPutAck | owedFin
	c.owedSN = 7
	c.pay()
	c.write()
	p.want(short(0), []byte(big), ack, ackReq, req(c.iface.addr, 0), appendPutAck(nil, 7), fin)
	c.iface.addr.v6 = false
}

// TestBrokenByDebt: writing due control frames to make room may detect that the connection is
// broken. The send that needed the room then returns that failure.
func TestBrokenByDebt(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	p.send(req(ep.peer, 0))
	p.want(ack)
	h.iface.SetAMHandler(1, func(*uct.Source, []byte, *uct.AMDesc) error {
		for c := ep.conn; c.out == nil || len(c.out.data)-c.out.w >= maxControl; {
			n := 1000
			if c.out != nil {
				n = min(n, len(c.out.data)-c.out.w-hdrLen-8)
			}
			if err := ep.AMShort(1, 0, make([]byte, n), 0, nil); err != nil && err != ucs.InProgress {
				t.Fatal(err)
			}
		}
		return nil
	})
	var err error
	h.iface.SetAMHandler(2, func(*uct.Source, []byte, *uct.AMDesc) error {
		unix.Shutdown(int(ep.conn.fd), unix.SHUT_WR)
		err = ep.AMShort(1, 0, nil, 0, nil)
		return nil
	})
	p.send(am(1, ""), putReq(0, 0, 0), am(2, ""))
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	if err != h.errs[0] {
		t.Errorf("the send says %v, the endpoint %v", err, h.errs[0])
	}
}

// TestPendingSendNow: a refused SendNow can be added as a pending request: it cannot be sent while
// the kernel accepts nothing, even if the buffer has room.
func TestPendingSendNow(t *testing.T) {
	for name, send := range map[string]func(*endpoint) error{
		"short": func(ep *endpoint) error { return ep.AMShort(1, 0, make([]byte, 2000), uct.SendNow, nil) },
		"bcopy": func(ep *endpoint) error {
			_, err := ep.AMBcopy(1, text(strings.Repeat("b", 2008)), uct.SendNow, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, "", "SNDBUF=16k")
			ep, p := narrow(t, h)
			sent := 0
			var err error
			for ; sent < 10000 && err == nil; sent++ {
				if err = send(ep); err == ucs.InProgress {
					h.w.Progress() // the kernel has a part of it
					err = nil
				}
			}
			if err != ucs.ErrNoResource {
				t.Fatalf("%d sends, then %v", sent, err)
			}
			sent--
			w := &waiting{send: func() error { return send(ep) }}
			w.pend.Owner = w
			if err := ep.PendingAdd(&w.pend); err != nil {
				t.Fatalf("adding what was just refused: %v", err)
			}
			const size = hdrLen + 8 + 2000
			for range sent {
				p.recv(size)
			}
			until(t, "its turn", func() bool { return !w.pend.Queued() }, h)
			p.recv(size)
		})
	}
}

// waiting is a pending request that sends one message.
type waiting struct {
	pend uct.Pending
	send func() error
}

func (w *waiting) Dispatch(*uct.Pending) error {
	if err := w.send(); err != ucs.InProgress {
		return err
	}
	return nil
}

func TestPendingWhileConnecting(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	order := []string{}
	q := &queued{ep: ep, order: &order}
	q.add(t, "1")
	q.add(t, "2")
	p := l.accept(h)
	p.want(flight(h.iface.addr, 0))
	p.send(ack)
	p.want(am(7, "1"), am(7, "2"))
	r := &pendingText{q: q}
	r.Owner = r
	until(t, "the queue to be empty", ep.pending.Empty, h)
	if err := ep.PendingAdd(&r.Pending); err != ucs.ErrBusy {
		t.Errorf("queueing on an idle connection: %v", err)
	}
}
