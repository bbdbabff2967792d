//go:build linux

package tcp

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestHostile: each protocol violation of an incoming connection ends that connection, and nothing
// else.
func TestHostile(t *testing.T) {
	peer := addr("127.0.0.1:5")
	hello := flight(peer, 0)
	cm := func(payload string) []byte { return am(idCM, payload) }
	for _, c := range []struct {
		name string
		sent [][]byte
	}{
		{"another protocol", [][]byte{[]byte("GET / HTTP/1.0\r\n\r\n")}},
		{"wrong first byte of the magic", [][]byte{{0x79}}},
		{"wrong last byte of the magic", [][]byte{{0x78, 0x56, 0x34, 0x12, 0xbe, 0xba, 0xfe, 0xcb}}},
		{"message before the request", [][]byte{magicBytes, am(1, "x")}},
		{"put before the request", [][]byte{magicBytes, putReq(0, 0, 0)}},
		{"put acknowledgement before the request", [][]byte{magicBytes, appendPutAck(nil, 0)}},
		{"keepalive before the request", [][]byte{magicBytes, am(idKeepalive, "")}},
		{"ACK before the request", [][]byte{magicBytes, ack}},
		{"FIN before the request", [][]byte{magicBytes, fin}},
		{"second magic", [][]byte{hello, magicBytes}},
		{"message longer than the limit", [][]byte{hello, appendFrameHeader(nil, 1, 65537)}},
		{"message of 4 GiB", [][]byte{hello, {1, 0xff, 0xff, 0xff, 0xff}}},
		{"id 36", [][]byte{hello, am(36, "")}},
		{"id 255", [][]byte{hello, am(255, "\x01\x00\x00\x00")}},
		{"connection packet without event", [][]byte{hello, cm("")}},
		{"connection packet of 3 bytes", [][]byte{hello, cm("\x02\x00\x00")}},
		{"connection packet of 1 GiB", [][]byte{hello, appendFrameHeader(nil, idCM, 1<<30)}},
		{"ACK of 5 bytes", [][]byte{hello, cm("\x02\x00\x00\x00\x00")}},
		{"event 0", [][]byte{hello, cm("\x00\x00\x00\x00")}},
		{"event 5", [][]byte{hello, cm("\x05\x00\x00\x00")}},
		{"event 2^32-1", [][]byte{hello, cm("\xff\xff\xff\xff")}},
		{"request without address", [][]byte{magicBytes, cm("\x01\x00\x00\x00" + strings.Repeat("\x00", 9))}},
		{"request with half an address", [][]byte{magicBytes, am(idCM, string(req(peer, 0)[hdrLen:hdrLen+20]))}},
		{"request with a byte too many", [][]byte{magicBytes, am(idCM, string(req(peer, 0)[hdrLen:])+"\x00")}},
		{"request of IPv6", [][]byte{flight(addr("[::1]:5"), 0)}},
		{"request of an unknown family", [][]byte{magicBytes, am(idCM, string(req(peer, 0)[hdrLen:hdrLen+13])+"\x01\x00"+strings.Repeat("\x00", 14))}},
		{"reserved number", [][]byte{flight(peer, 1<<64-1)}},
		{"request for a key nobody has", [][]byte{magicBytes, appendRequest(nil, request{flags: reqToEP, id: 3, from: peer})}},
		{"second request with another number", [][]byte{hello, req(peer, 1)}},
		{"second request from somebody else", [][]byte{hello, req(addr("127.0.0.1:6"), 0)}},
		{"second request for a key", [][]byte{hello, appendRequest(nil, request{flags: reqToEP, from: peer})}},
		{"put of 19 bytes", [][]byte{hello, am(idPutReq, strings.Repeat("\x00", 19))}},
		{"put of 21 bytes", [][]byte{hello, am(idPutReq, strings.Repeat("\x00", 21))}},
		{"put to memory that is not exposed", [][]byte{hello, putReq(0x1000, 8, 0)}},
		{"put around the end of memory", [][]byte{hello, putReq(1<<64-8, 16, 0)}},
		{"put of everything", [][]byte{hello, putReq(1, 1<<64-1, 0)}},
		{"put acknowledgement of 3 bytes", [][]byte{hello, am(idPutAck, "\x00\x00\x00")}},
		{"put acknowledgement of 5 bytes", [][]byte{hello, am(idPutAck, "\x00\x00\x00\x00\x00")}},
		{"keepalive with a byte", [][]byte{hello, am(idKeepalive, "x")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, "")
			good := dial(t, h)
			good.send(flight(addr("127.0.0.1:7"), 0))
			good.want(ack)
			p := dial(t, h)
			for i, b := range c.sent {
				p.send(b)
				// The connection request is answered, unless it is the violation.
				if i == 0 && len(c.sent) > 1 && len(b) == len(hello) {
					p.want(ack)
				}
			}
			p.wantClosed()
			exact(t, h, 1)
			if len(h.got) != 0 {
				t.Errorf("delivered %v", h.got)
			}
			good.send(am(2, "alive"))
			until(t, "the other connection", func() bool { return len(h.got) == 1 }, h)
		})
	}
}

// TestHostileAnswer: the same violations at a connection of this side fail its endpoint.
func TestHostileAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		sent []byte
	}{
		{"unknown id", am(77, "")},
		{"message too long", appendFrameHeader(nil, 3, 1<<20)},
		{"put to memory that is not exposed", putReq(4096, 1, 0)},
		{"unknown event", am(idCM, "\x08\x00\x00\x00")},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, "")
			l := listenRaw(t, h, false)
			ep := l.endpoint(h)
			p := l.accept(h)
			p.want(flight(h.iface.addr, 0))
			p.send(ack)
			until(t, "connect", connected(ep), h)
			p.send(c.sent)
			p.wantClosed()
			until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
			if ucs.StatusOf(h.errs[0]) != ucs.ErrConnectionReset {
				t.Errorf("error %v", h.errs[0])
			}
		})
	}
}

// TestFalseAcknowledgement: acknowledgements of puts that were never made complete nothing.
func TestFalseAcknowledgement(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	p := l.accept(h)
	p.want(flight(h.iface.addr, 0))
	p.send(ack, appendPutAck(nil, 0), appendPutAck(nil, ^uint32(0)), appendPutAck(nil, 5))
	until(t, "connect", connected(ep), h)
	d := newDone()
	ep.AMShort(1, 0, nil, 0, nil)
	if err := ep.Flush(uct.FlushRemote, &d.comp); err != ucs.InProgress {
		t.Fatal(err)
	}
	p.recv(hdrLen + 8)
	p.want(putReq(0, 0, 0))
	p.send(appendPutAck(nil, 1), appendPutAck(nil, 1<<31))
	p.wantSilence()
	if d.n != 0 {
		t.Fatal("flushed by a false acknowledgement")
	}
	p.send(appendPutAck(nil, 0))
	until(t, "flush", func() bool { return d.n == 1 }, h)
	p.send(appendPutAck(nil, 0)) // again
	p.wantSilence()
}

// TestEarlyAcknowledgement: a put does not complete before its bytes are written, even if the peer
// has acknowledged it. Otherwise the caller could reuse memory that is still being sent.
func TestEarlyAcknowledgement(t *testing.T) {
	h := newHost(t, "", "SNDBUF=16k")
	ep, p := narrow(t, h)
	data := make([]byte, 200<<10)
	d := newDone()
	if err := ep.PutZcopy([]uct.IOV{{Data: data}}, 0, nil, &d.comp); err != ucs.InProgress {
		t.Fatal(err)
	}
	p.send(appendPutAck(nil, 0))
	for h.w.Progress() > 0 { // the sockets still accept some
	}
	if d.n != 0 {
		t.Fatal("complete before it was written")
	}
	p.recv(hdrLen + putReqLen + len(data))
	p.send(appendPutAck(nil, 0))
	until(t, "completion", func() bool { return d.n == 1 }, h)
}

// TestLargestMessage: the largest message is accepted, and lengths around the bounds work.
func TestLargestMessage(t *testing.T) {
	for _, c := range []struct {
		set   string
		limit int
	}{{"RX_SEG_SIZE=64k", 65536}, {"RX_SEG_SIZE=16k", 65536}, {"RX_SEG_SIZE=300k", 300 << 10}} {
		t.Run(c.set, func(t *testing.T) {
			h := newHost(t, "", c.set)
			p := dial(t, h)
			p.send(flight(addr("127.0.0.1:5"), 0))
			p.want(ack)
			for i, n := range []int{c.limit, 0, 1, c.limit - 1, 65536, 4096, c.limit} {
				data := strings.Repeat(string(rune('a'+i)), n)
				p.send(am(3, data))
				until(t, "message", func() bool { return len(h.got) == i+1 }, h)
				if h.got[i].data != data {
					t.Fatalf("message of %d bytes arrived wrong", n)
				}
			}
			p.send(appendFrameHeader(nil, 3, c.limit+1))
			p.wantClosed()
		})
	}
}

// TestAnyCut: frames may arrive in any pieces.
func TestAnyCut(t *testing.T) {
	target := make([]byte, 300)
	h := newHost(t, "")
	mem, err := h.md.Register(target, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	defer h.md.Deregister(mem)
	base := addressOf(target)
	var stream []byte
	for _, b := range [][]byte{
		flight(addr("127.0.0.1:5"), 0), am(1, "a"), am(2, strings.Repeat("b", 700)),
		putReq(base, 300, 0), []byte(strings.Repeat("p", 300)), am(3, ""),
		putReq(base+10, 5, 1), []byte("qqqqq"), am(idKeepalive, ""), am(4, "d"),
	} {
		stream = append(stream, b...)
	}
	answers := len(ack) + 2*(hdrLen+putAckLen)
	for _, step := range []int{1, 2, 3, 7, 64, 511, 512, 513, len(stream)} {
		h.got = nil
		clear(target)
		p := dial(t, h)
		for at := 0; at < len(stream); at += step {
			p.send(stream[at:min(at+step, len(stream))])
			h.w.Progress()
		}
		until(t, "messages", func() bool { return len(h.got) == 4 }, h)
		if h.got[1].data != strings.Repeat("b", 700) || h.got[3] != (message{4, "d"}) {
			t.Errorf("step %d: got %v", step, h.got)
		}
		if want := strings.Repeat("p", 10) + "qqqqq" + strings.Repeat("p", 285); string(target) != want {
			t.Errorf("step %d: target %q", step, target)
		}
		got := p.recv(len(ack) + hdrLen + putAckLen)
		last := got[len(got)-putAckLen:]
		if le.Uint32(last) == 0 { // acknowledgements not combined
			last = p.recv(hdrLen + putAckLen)
		}
		if le.Uint32(last[len(last)-putAckLen:]) != 1 {
			t.Errorf("step %d: answers %x of %d bytes", step, got, answers)
		}
		p.send(fin)
		p.wantClosed()
	}
}

// TestHalfOpen: a thousand connections that send no request do not stop the service. The oldest are
// closed, the newest are still accepted.
func TestHalfOpen(t *testing.T) {
	n, kept := 1000, limits.halfOpen/2 // all have one source
	if !enoughFiles(n + kept + 100) {
		old := limits
		limits.halfOpen = 40
		defer func() { limits = old }()
		n, kept = 80, limits.fitting().halfOpen/2
	}
	h := newHost(t, "")
	var idle []*rawPeer
	for i := range n {
		p := dial(t, h)
		switch i % 3 {
		case 1:
			p.send(magicBytes[:3])
		case 2:
			p.send(magicBytes)
		}
		h.w.Progress()
		idle = append(idle, p)
	}
	until(t, "all to be accepted", func() bool { return idle[n-1-kept].gone() && h.conns() == kept }, h)
	good := dial(t, h)
	good.send(flight(addr("127.0.0.1:5"), 0), am(1, "served"))
	good.want(ack)
	if len(h.got) != 1 {
		t.Error("not served")
	}
	for i := n - 3; i < n; i++ {
		first := flight(addr("127.0.0.1:6"), uint64(i))
		idle[i].send(first[[3]int{0, 3, magicLen}[i%3]:])
		idle[i].want(ack)
	}
}

func TestHandshakeTimeLimit(t *testing.T) {
	old := limits
	limits.handshake = 1
	defer func() { limits = old }()
	h := newHost(t, "")
	a, b := dial(t, h), dial(t, h)
	b.send(magicBytes)
	a.wantClosed()
	b.wantClosed()
	exact(t, h, 0)
}

// TestDuplicateIdentity: a connection with the listener and number of another is closed while that
// one lives, and replaces it once it has broken.
func TestDuplicateIdentity(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, true)
	first := dial(t, h)
	first.send(flight(l.addr, 0))
	first.want(ack)
	second := dial(t, h)
	second.send(flight(l.addr, 0))
	second.wantClosed()
	first.send(am(1, "x"))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	// The first is lost, which is not detected before the peer connects again.
	third := dial(t, h)
	third.send(magicBytes)
	third.wantSilence()
	first.reset()
	third.send(req(l.addr, 0))
	third.want(ack)
	exact(t, h, 1)
}

// TestNoDescriptors: without descriptors, accepting pauses and resumes later.
func TestNoDescriptors(t *testing.T) {
	old := limits
	limits.acceptPause = 1
	defer func() { limits = old }()
	h := newHost(t, "")
	good := dial(t, h)
	good.send(flight(addr("127.0.0.1:5"), 0))
	good.want(ack)
	late := dial(t, h)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(lowestFreeFD(t)) // all lower ones are in use
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		h.w.Progress()
	}
	n := h.conns()
	// An established connection is served meanwhile.
	good.send(am(1, "x"))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Errorf("%d connections without descriptors for them", n)
	}
	late.send(flight(addr("127.0.0.1:7"), 0))
	late.want(ack)
}

// lowestFreeFD returns the number that the next descriptor will have.
func lowestFreeFD(t *testing.T) int {
	fd, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	return fd
}
