//go:build linux

package tcp

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/certtest"
)

// largeFrames lets several connections of one source, to which the application has no endpoint,
// each send a frame of the given length in parts, alternately, and expects all frames.
func largeFrames(t *testing.T, connections, length, parts int, vars ...string) {
	t.Helper()
	if !enoughFiles(2*connections + 100) {
		t.Skip("too few descriptors")
	}
	h := newHost(t, "", vars...)
	frame := am(1, strings.Repeat("x", length))
	var peers []*rawPeer
	for sn := range connections {
		p := dial(t, h)
		p.send(flight(addr(fmt.Sprintf("127.0.0.1:%d", sn+1)), 0))
		p.want(ack)
		peers = append(peers, p)
	}
	arrived := func() (sum int) {
		for c := h.iface.conns; c != nil; c = c.next {
			if c.in != nil {
				sum += c.in.w - c.in.r
			}
		}
		return sum
	}
	kept := func() (sum int) {
		for k := range h.iface.svc.pieces {
			sum += h.iface.svc.pieces[k].used * h.iface.svc.pieces[k].size
		}
		return sum
	}
	sent := 0
	for part := range parts {
		from, to := part*len(frame)/parts, (part+1)*len(frame)/parts
		for _, p := range peers {
			p.sendWhile(h, frame[from:to])
		}
		if sent += (to - from) * connections; part < parts-1 {
			until(t, fmt.Sprintf("part %d of %d frames", part+1, connections), func() bool { return arrived() == sent }, h)
			if n := kept(); n > 2*sent+connections*smallPiece {
				t.Errorf("%d bytes have arrived, %d are kept for them", sent, n)
			}
			if used := h.iface.rxPool.used; used > max(h.iface.maxLarge, 2*sent/h.iface.rxPool.size) {
				t.Errorf("%d connections have buffers of %d bytes for %d bytes that have arrived", used, h.iface.rxPool.size, sent)
			}
		}
	}
	until(t, "all messages", func() bool { return len(h.got) == connections }, h)
	for _, m := range h.got {
		if len(m.data) != length || strings.Trim(m.data, "x") != "" {
			t.Fatalf("a message of %d bytes, not as it was sent", len(m.data))
		}
	}
}

// sendWhile sends more than the kernel may buffer, while the host reads.
func (p *rawPeer) sendWhile(h *host, b []byte) {
	p.t.Helper()
	for len(b) > 0 {
		n, err := unix.SendmsgN(p.fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err != nil && err != unix.EAGAIN {
			p.t.Fatal(err)
		}
		if b = b[max(n, 0):]; err != nil {
			h.w.Progress()
		}
	}
}

// TestLargeSegments: with large segments configured, a peer that sends large frames is not taken
// for one that sends only incomplete frames.
func TestLargeSegments(t *testing.T) {
	for _, c := range []struct {
		connections, length, parts int
		seg                        string
	}{
		{1, 100_000, 2, "16m"},
		{1, 15 << 20, 20, "16m"},
		{3, 1 << 20, 3, "1g"},
		{30, 900_000, 4, "1m"},
		{100, 900_000, 3, "1m"},
		{100, 700_000, 5, "32m"},
	} {
		t.Run(fmt.Sprintf("%d of %d with %s", c.connections, c.length, c.seg), func(t *testing.T) {
			largeFrames(t, c.connections, c.length, c.parts, "RX_SEG_SIZE="+c.seg)
		})
	}
}

// TestBeginningsFollowSettings: the bound of memory for incomplete frames grows with the segment
// size, up to a maximum.
func TestBeginningsFollowSettings(t *testing.T) {
	b := bounds{partialBytes: 16 << 20}
	for _, c := range []struct{ seg, want int }{
		{0, 16 << 20}, {8 << 10, 16 << 20}, {64 << 10, 16 << 20}, {1 << 20, 256 << 20}, {4 << 20, 1 << 30}, {16 << 20, 1 << 30},
	} {
		if got := b.forFrames(c.seg).partialBytes; got != c.want {
			t.Errorf("segments of %d bytes: %d bytes of beginnings, want %d", c.seg, got, c.want)
		}
	}
	if got := b.forFrames(maxSeg).partialBytes; got < maxSeg {
		t.Errorf("a largest segment does not fit into %d bytes", got)
	}
}

// TestLargeSegmentsTLS is the same with TLS, where frames and records can both be incomplete.
func TestLargeSegmentsTLS(t *testing.T) {
	ca := certtest.New()
	h := tlsHost(t, ca.Mutual("bob"), "RX_SEG_SIZE=16m")
	cfg := ca.Mutual("alice")
	cfg.NextProtos = []string{alpn}
	const n = 12
	var peers []*tlsPeer
	frame := am(1, strings.Repeat("x", 3<<20))
	for sn := range n {
		p := dialTLS(t, h, cfg)
		p.send(flight(addr(fmt.Sprintf("127.0.0.1:%d", sn+1)), 0))
		p.want(ack)
		peers = append(peers, p)
	}
	const parts = 6
	for part := range parts {
		for _, p := range peers {
			p.send(frame[part*len(frame)/parts : (part+1)*len(frame)/parts])
		}
	}
	until(t, "all messages", func() bool { return len(h.got) == n }, h)
}
