//go:build linux

package tcp

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct"
)

// TestAllow: connections from networks outside UCX_TCP_ALLOW are closed unread.
func TestAllow(t *testing.T) {
	h := newHost(t, "", "ALLOW=127.0.0.2/31,10.0.0.0/8,2001:db8::1")
	before := ledger.Refusals(ledger.Policy)
	p := dial(t, h) // from 127.0.0.1
	p.wantClosed()
	if n := ledger.Refusals(ledger.Policy) - before; n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	p = dialFrom(t, h, addr("127.0.0.3:0"), -1)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	for from, want := range map[string]bool{"10.255.0.1": true, "11.0.0.1": false} {
		if p := dialAs(t, h, from); p.gone() == want {
			t.Errorf("%s: refused %v", from, want)
		}
	}
}

func TestAllowSettings(t *testing.T) {
	for text, want := range map[string]int{"all": -1, "10.0.0.0/8": 1, "10.1.2.3, ::1": 2, "10.0.0.0/8,ALL": -1, "": -2,
		"10.0.0.1/8": -2, "10.0.0.0/33": -2, "localhost": -2, "fe80::1%lo": -2} {
		nets, err := parseAllow([]string{text})
		if text == "10.1.2.3, ::1" {
			nets, err = parseAllow([]string{"10.1.2.3", " ::1"})
		}
		if text == "10.0.0.0/8,ALL" {
			nets, err = parseAllow([]string{"10.0.0.0/8", "ALL"})
		}
		n := len(nets)
		switch {
		case err != nil:
			n = -2
		case nets == nil:
			n = -1
		}
		if n != want {
			t.Errorf("%q: %v, %v", text, nets, err)
		}
	}
}

// TestAccept: the application decides, by what the kernel reports, before a byte is read.
func TestAccept(t *testing.T) {
	h := newHost(t, "")
	var asked []uct.SourceInfo
	allow := false
	before := ledger.Refusals(ledger.Policy)
	h.iface.accept = func(s uct.SourceInfo) bool {
		asked = append(asked, s)
		return allow
	}
	p := dial(t, h)
	from := localAddr(t, p.fd)
	unix.Write(p.fd, append(flight(addr("127.0.0.1:5"), 0), am(1, "not heard")...)) // it may be closed
	until(t, "the end", func() bool { return p.gone() }, h)
	if len(asked) != 1 || asked[0].Addr != from || !asked[0].Local ||
		asked[0].User.Known && asked[0].User.UID != os.Getuid() || len(h.got) != 0 {
		t.Errorf("asked about %+v, %v is %v; received %v", asked, from, os.Getuid(), h.got)
	}
	exact(t, h, 0)
	if n := ledger.Refusals(ledger.Policy) - before; n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	allow = true
	q := dialFrom(t, h, sockaddr{}, os.Getuid()+1)
	q.send(flight(addr("127.0.0.1:5"), 0), am(1, "heard"))
	q.want(ack)
	if len(asked) != 2 || asked[1].User.Known && asked[1].User.UID != os.Getuid()+1 || len(h.got) != 1 {
		t.Errorf("asked about %+v, received %v", asked, h.got)
	}
}
