//go:build linux

package tcp

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// TestAliveVerdict: a peer counts as gone only if it has been silent for long enough and the kernel
// has retransmitted in vain.
func TestAliveVerdict(t *testing.T) {
	const limit = 20 * time.Second
	type look struct {
		at   time.Duration
		info unix.TCPInfo
		want verdict
	}
	sec := time.Second
	under := func(lastAckMs uint32, retransmits, probes uint8) unix.TCPInfo {
		return unix.TCPInfo{Unacked: 1, Last_ack_recv: lastAckMs, Retransmits: retransmits, Probes: probes}
	}
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"nothing under way", []look{{sec, unix.TCPInfo{Last_ack_recv: 1e6}, verdictIdle}}},
		{"first output after an hour", []look{{sec, under(3600e3, 0, 0), verdictWait}}},
		{"lost", []look{
			{0, under(3600e3, 3, 0), verdictWait},
			{19 * sec, under(3600e3, 6, 0), verdictWait},
			{20 * sec, under(3600e3, 7, 0), verdictGone},
		}},
		{"acknowledged in between", []look{
			{0, under(10e3, 5, 0), verdictWait},
			{15 * sec, under(10e3, 1, 0), verdictWait},
			{24 * sec, under(19e3, 5, 0), verdictWait},
			{25 * sec, under(20e3, 5, 0), verdictGone},
		}},
		{"slow, but not repeated", []look{
			{0, under(0, 0, 0), verdictWait},
			{100 * sec, under(100e3, 2, 2), verdictWait},
		}},
		{"closed window, answered", []look{
			{0, unix.TCPInfo{Notsent_bytes: 1}, verdictWait},
			{60 * sec, unix.TCPInfo{Notsent_bytes: 1, Last_ack_recv: 59e3}, verdictWait},
			{120 * sec, unix.TCPInfo{Notsent_bytes: 1, Last_ack_recv: 50e3, Probes: 1}, verdictWait},
		}},
		{"closed window, not answered", []look{
			{0, unix.TCPInfo{Notsent_bytes: 1}, verdictWait},
			{60 * sec, unix.TCPInfo{Notsent_bytes: 1, Last_ack_recv: 60e3, Probes: 3}, verdictGone},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := aliveMark{since: -1}
			for _, l := range c.looks {
				if got := m.judge(l.at, &l.info, limit); got != l.want {
					t.Errorf("at %v: verdict %d, want %d", l.at, got, l.want)
				}
			}
		})
	}
}

// TestStoppedPeer: a peer that never reads stays connected, as its kernel answers.
func TestStoppedPeer(t *testing.T) {
	h := newHost(t, "", "SNDBUF=16k", "KEEPIDLE=1s", "KEEPINTVL=1s", "KEEPCNT=1")
	h.iface.silence = 80 * time.Millisecond
	ep, p := narrow(t, h)
	want, _ := block(t, ep)
	watch := &h.iface.svc.watch
	until(t, "the window to be closed", func() bool {
		info, err := unix.GetsockoptTCPInfo(int(ep.conn.fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		return err == nil && info.Unacked == 0 && info.Notsent_bytes > 0 && ep.conn.blocked
	}, h)
	looks := 0
	until(t, "some looks", func() bool {
		if !watch.armed {
			t.Fatal("nobody looks")
		}
		looks++
		return looks > 20
	}, h)
	if len(h.errs) != 0 {
		t.Fatalf("a peer that does not read counts as gone: %v", h.errs)
	}
	p.want(want)
	until(t, "room to send", func() bool { return ep.AMShort(1, 0, nil, 0, nil) != ucs.ErrNoResource }, h)
	p.want(short(0))
	// With no unacknowledged output the timer is off.
	until(t, "rest", func() bool { return len(watch.list) == 0 && !watch.armed }, h)
	if ep.conn.alive.place != 0 {
		t.Error("the connection thinks it is looked at")
	}
}

// TestNoKeepalive: with keepalive off, silence does not fail an endpoint.
func TestNoKeepalive(t *testing.T) {
	for _, v := range []string{"KEEPIDLE=inf", "KEEPINTVL=inf", "KEEPCNT=inf"} {
		h := newHost(t, "", v)
		ep, _ := outgoing(t, h)
		ep.AMShort(1, 0, nil, 0, nil)
		on, err := unix.GetsockoptInt(int(ep.conn.fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		if on != 0 || err != nil || h.iface.silence != 0 || len(h.iface.svc.watch.list) != 0 {
			t.Errorf("%s: option %d, %v, silence %v", v, on, err, h.iface.silence)
		}
		if h.iface.Attr().Flags&(1<<46) != 0 {
			t.Errorf("%s: keepalive is announced", v)
		}
	}
}

func TestGoneError(t *testing.T) {
	h := newHost(t, "")
	ep, _ := outgoing(t, h)
	ep.conn.gone(time.Minute)
	h.w.Progress()
	if len(h.errs) != 1 || !errors.Is(h.errs[0], ucs.ErrConnectionReset) || !errors.Is(h.errs[0], unix.ETIMEDOUT) {
		t.Errorf("%v", h.errs)
	}
}
