//go:build linux

package tcp

import (
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	machine "github.com/ucx-go/ucx/uct/internal/host"
)

// TestSourceInfo: a connection reports its peer's address, user and process as the kernel knows
// them.
func TestSourceInfo(t *testing.T) {
	for _, device := range []string{"lo"} {
		h := newHost(t, device)
		p := dial(t, h)
		p.send(flight(addr("127.0.0.1:5"), 0))
		p.want(ack)
		c := h.iface.conns
		info := c.SourceInfo()
		if !info.Addr.IsValid() || info.Addr != localAddr(t, p.fd) || !info.Local {
			t.Errorf("%+v, the peer is %v", info, localAddr(t, p.fd))
		}
		if info.User.Known && info.User.UID != os.Getuid() {
			t.Errorf("the peer's user is %+v", info.User)
		}
		self, err := machine.Self()
		if err != nil {
			t.Fatal(err)
		}
		if info.User.Known && !c.HeldBy(self.ID()) {
			t.Error("not held by this process")
		}
		wrong := self
		wrong.Start++
		if c.HeldBy(wrong.ID()) || c.HeldBy(0) {
			t.Error("held by another run of the process, or by none")
		}
		if init, err := machine.Find(1); err == nil && os.Getpid() != 1 && c.HeldBy(init.ID()) {
			t.Error("held by process 1")
		}
	}
}

// TestPause: a paused connection delivers nothing, and loses nothing.
func TestPause(t *testing.T) {
	h := newHost(t, "")
	var src *uct.Source
	n := 0
	h.iface.SetAMHandler(1, func(s *uct.Source, _ []byte, _ *uct.AMDesc) error {
		src = s
		if n++; n == 2 {
			s.Owner.(uct.Connection).PauseSource()
		}
		return nil
	})
	target := make([]byte, 3000)
	mem, err := h.md.Register(target, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	defer h.md.Deregister(mem)
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	p.send(am(1, "a"), am(1, "b"), am(1, strings.Repeat("c", 2000)), am(1, "d"))
	p.wantSilence()
	p.send(am(1, strings.Repeat("e", 60000)), putReq(addressOf(target), 3000, 0), []byte(strings.Repeat("p", 3000)), am(1, "f"))
	p.wantSilence()
	if n != 2 {
		t.Fatalf("%d messages", n)
	}
	if err := armed(h); err != nil {
		t.Errorf("a paused connection keeps the worker awake: %v", err)
	}
	src.Owner.(uct.Connection).ResumeSource()
	if err := armed(h); err != ucs.ErrBusy {
		t.Errorf("what waits does not keep the worker awake: %v", err)
	}
	p.want(appendPutAck(nil, 0))
	until(t, "the rest", func() bool { return n == 6 }, h)
	if string(target) != strings.Repeat("p", 3000) {
		t.Error("the put is not what was sent")
	}
	p.send(am(1, "g"))
	until(t, "another one", func() bool { return n == 7 }, h)
	p.send(fin)
	p.wantClosed()
	exact(t, h, 0)
}

// TestPausedLost: a connection that breaks while it is paused is dropped.
func TestPausedLost(t *testing.T) {
	h := newHost(t, "")
	h.iface.SetAMHandler(1, func(s *uct.Source, _ []byte, _ *uct.AMDesc) error {
		s.Owner.(uct.Connection).PauseSource()
		return nil
	})
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0), am(1, "a"))
	p.want(ack)
	p.wantSilence()
	p.reset()
	until(t, "the end", func() bool { return h.conns() == 0 }, h)
}

func armed(h *host) error { return h.w.Arm() }
