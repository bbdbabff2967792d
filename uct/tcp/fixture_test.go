//go:build linux

package tcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// host is a process in miniature: a worker with one iface, progressed by the test.
type host struct {
	t      testing.TB
	w      *uct.Worker
	md     uct.MemoryDomain
	iface  *iface
	got    []message
	errs   []error
	failed []uct.Endpoint
}

// message is a received active message.
type message struct {
	id   uct.AMID
	data string
}

// newHost opens a device ("lo" when empty) with settings given as NAME=value
// without UCX_TCP_.
func newHost(t testing.TB, device string, vars ...string) *host {
	t.Helper()
	return newHostOf(t, component{}, device, vars...)
}

// newHostOf is newHost for the given component: tcp, or tcp with TLS.
func newHostOf(t testing.TB, comp uct.Component, device string, vars ...string) *host {
	t.Helper()
	if device == "" {
		device = "lo"
	}
	var cfg *config.Set
	if len(vars) > 0 {
		cfg = new(config.Set)
		for _, v := range vars {
			name, value, _ := strings.Cut(v, "=")
			if err := cfg.Modify("TCP_"+name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	md, err := comp.OpenMD(comp.Name(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, w: w, md: md}
	i, err := md.OpenIface(w, uct.IfaceParams{
		Transport: comp.Name(),
		Device:    device,
		OnError: func(ep uct.Endpoint, _ any, err error) {
			h.failed = append(h.failed, ep)
			h.errs = append(h.errs, err)
		},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.iface = i.(*iface)
	for id := range uct.AMID(uct.MaxAMIDs) {
		i.SetAMHandler(id, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			h.got = append(h.got, message{id, string(data)})
			return nil
		})
	}
	t.Cleanup(h.close)
	return h
}

func (h *host) close() {
	if h.iface == nil {
		return
	}
	if err := h.iface.Close(); err != nil {
		h.t.Error(err)
	}
	if s := h.iface.svc; s.guests.n() != 0 || len(s.guests.of)+len(s.guests.networks) != 0 || s.half.head != nil || s.slow.head != nil {
		h.t.Errorf("%d guests are left, slow ones %v, half-open ones %v", s.guests.n(), s.slow.head, s.half.head)
	}
	for size, p := range h.iface.svc.txPools {
		if p.used != 0 {
			h.t.Errorf("%d transmit buffers of %d bytes are left", p.used, size)
		}
	}
	for size, p := range h.iface.svc.rxPools {
		if p.used != 0 {
			h.t.Errorf("%d receive buffers of %d bytes are left", p.used, size)
		}
	}
	for _, p := range h.iface.svc.pieces {
		if p.used != 0 {
			h.t.Errorf("%d pieces of %d bytes are left", p.used, p.size)
		}
	}
	h.iface = nil
	if err := h.w.Close(); err != nil {
		h.t.Error(err)
	}
}

// connect makes an endpoint to o.
func (h *host) connect(o *host) *endpoint {
	h.t.Helper()
	ep, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: o.iface.DeviceAddress(), IfaceAddr: o.iface.Address()})
	if err != nil {
		h.t.Fatal(err)
	}
	return ep.(*endpoint)
}

// until progresses the hosts until cond holds, and waits at the workers' descriptors in between.
func until(t testing.TB, what string, cond func() bool, hosts ...*host) {
	t.Helper()
	for idle := 0; idle < 1000; {
		n := 0
		for _, h := range hosts {
			n += h.w.Progress()
		}
		if cond() {
			return
		}
		if n == 0 {
			idle++
			wait(hosts)
		}
	}
	t.Fatalf("never happened: %s", what)
}

// wait sleeps until one of the hosts has something to do, for 20 ms at most.
func wait(hosts []*host) {
	var fds []unix.PollFd
	for _, h := range hosts {
		if h.w.Arm() != nil {
			return
		}
		fds = append(fds, unix.PollFd{Fd: int32(h.w.EventFD()), Events: unix.POLLIN})
	}
	unix.Poll(fds, 20)
}

// pair returns two hosts and a connected endpoint from a to b.
func pair(t testing.TB, vars ...string) (a, b *host, ep *endpoint) {
	t.Helper()
	a, b = newHost(t, "", vars...), newHost(t, "", vars...)
	ep = a.connect(b)
	until(t, "connect", func() bool { return ep.conn != nil && ep.conn.state == stateConnected }, a, b)
	return a, b, ep
}

// done is a completion that counts its calls.
type done struct {
	comp uct.Completion
	n    int
}

func newDone() *done {
	d := new(done)
	d.comp.Owner = d
	d.comp.Count = 1
	return d
}

func (d *done) Completed(*uct.Completion) { d.n++ }

// text packs a string.
type text string

func (s text) Pack(dst []byte) int { return copy(dst, s) }

// openFDs counts this process's descriptors.
func openFDs(t testing.TB) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("cannot list descriptors: %v", err)
	}
	return len(names)
}

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// enoughFiles reports whether the process may open n descriptors.
func enoughFiles(n int) bool { return ucttest.Files() >= n }
