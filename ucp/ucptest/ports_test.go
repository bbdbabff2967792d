//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Workers over devices with two ports. Each port is a resource with its own address, and both
// belong to one memory domain.

// twoPorts registers devices with two ports each, of which those named in down are down.
func twoPorts(t *testing.T, down ...string) map[string]*verbstest.Kernel {
	port := func(name string, num int) verbstest.Port {
		return verbstest.Port{Down: slices.Contains(down, fmt.Sprintf("%s:%d", name, num))}
	}
	var list []verbstest.Config
	for _, name := range []string{"frail0", "frail1"} {
		list = append(list, verbstest.Config{Name: name, Ports: []verbstest.Port{port(name, 1), port(name, 2)}})
	}
	return frailNet.renewAs(t, list...)
}

// portCount counts the bytes of messages by the sending port.
type portCount map[string]int

func countPorts(devices map[string]*verbstest.Kernel) portCount {
	c := make(portCount)
	devices["frail0"].Fabric().SetHook(func(m *verbstest.Message) (through verbstest.Fate) {
		c[fmt.Sprintf("%s:%d", m.From.Name(), m.FromPort)] += m.Length
		return through
	})
	return c
}

// portsOf returns the devices of an endpoint's lanes, sorted.
func portsOf(ep *ucp.Endpoint) (list []string) {
	for _, l := range ep.Attr().Transports {
		list = append(list, l.Device)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// ported opens two workers, each over both ports of its own device.
func ported(t *testing.T, tls string) (r *rig, a, b *side) {
	tr := onFabric("frail", tls).vanishing()
	tr.paired = tls != "ud_v"
	r = newRig(t, tr)
	r.transport = tr.using("frail0:1,frail0:2")
	a = r.open()
	r.transport = tr.using("frail1:1,frail1:2")
	return r, a, r.open()
}

// TestPorts checks that a worker's address contains both ports, that endpoints have lanes over
// both, and that half of a rendezvous goes over each.
func TestPorts(t *testing.T) {
	for _, tls := range []string{"rc_v", "ud_v", "ib"} {
		t.Run(tls, func(t *testing.T) {
			devices := twoPorts(t)
			r, a, b := ported(t, tls)
			for _, s := range []*side{a, b} {
				addr := r.parsed(s.address())
				if n := len(addr.Devices); n != 2 {
					t.Errorf("address of %d devices: %+v", n, addr.Devices)
				}
			}
			there, back := a.connect(b), b.connect(a)
			r.exchange(there, b, back, a)
			count := countPorts(devices)
			const n = 1 << 20
			buf := make([]byte, n)
			recv := r.started(b.TagRecv(2, ucp.FullMask, buf, nil))
			r.must(there.TagSend(2, ucttest.Pattern(n, 1), nil))
			r.must(recv, nil)
			ucttest.SameBytes(t, "message", buf, ucttest.Pattern(n, 1))
			if tls == "ud_v" {
				// Datagrams cannot access memory: everything goes over the lane for messages.
				if got := portsOf(there); len(got) != 1 {
					t.Errorf("lanes over %v", got)
				}
				r.clean(a, b)
				return
			}
			for _, dev := range []string{"frail0", "frail1"} {
				ep := map[string]*ucp.Endpoint{"frail0": there, "frail1": back}[dev]
				if got, want := portsOf(ep), []string{dev + ":1", dev + ":2"}; !slices.Equal(got, want) {
					t.Errorf("lanes over %v, want %v", got, want)
				}
			}
			// Over both ports readers send their requests and owners of memory their data; writers
			// write over both.
			for num := 1; num <= 2; num++ {
				port := fmt.Sprintf(":%d", num)
				got := count["frail0"+port] + count["frail1"+port]
				if got < n/2-n/8 || got > n/2+n/8 {
					t.Errorf("%d of %d bytes over the ports %s: %v", got, n, port, count)
				}
			}
			r.clean(a, b)
		})
	}
}

// TestPortDownAtStart checks that a port that is down when the context is opened is no resource,
// and that the other port carries everything.
func TestPortDownAtStart(t *testing.T) {
	needtest.Goroutines(t)
	for _, tls := range []string{"rc_v", "ud_v", "ib"} {
		for _, down := range []string{"frail0:1", "frail0:2", "frail1:1"} {
			t.Run(tls+" "+down, func(t *testing.T) {
				twoPorts(t, down)
				tr := onFabric("frail", tls).vanishing()
				r := newRig(t, tr)
				// Selects the port by excluding others, as its name alone would cause a warning.
				others := "^fake0:1"
				for k := range scarceDevices {
					others += fmt.Sprintf(",scarce%d:1", k)
				}
				r.transport = tr.using(others)
				a, b := r.pair()
				for _, s := range []*side{a, b} {
					var text strings.Builder
					if err := s.ctx.WriteInfo(&text); err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(text.String(), down+" is DOWN, expected ACTIVE") {
						t.Errorf("nothing of %s being down:\n%s", down, &text)
					}
					if n := len(r.parsed(s.address()).Devices); n != 3 {
						t.Errorf("address of %d devices", n)
					}
				}
				there, back := a.connect(b), b.connect(a)
				r.exchange(there, b, back, a)
				for _, ep := range []*ucp.Endpoint{there, back} {
					if got := portsOf(ep); slices.Contains(got, down) {
						t.Errorf("lanes over %v", got)
					}
				}
				r.transferLong(there, b)
				r.clean(a, b)
			})
		}
	}
}

// transferLong sends a message of 1 MiB.
func (r *rig) transferLong(ep *ucp.Endpoint, to *side) {
	r.Helper()
	const n = 1 << 20
	buf := make([]byte, n)
	recv := r.started(to.TagRecv(3, ucp.FullMask, buf, nil))
	r.must(ep.TagSend(3, ucttest.Pattern(n, 3), nil))
	r.must(recv, nil)
	ucttest.SameBytes(r, "message", buf, ucttest.Pattern(n, 3))
}

// TestPortLost: one of two ports goes down. Endpoints with a lane over it fail, each once, with all
// of their operations; endpoints over the other port go on. When the port is up again new endpoints
// use both.
func TestPortLost(t *testing.T) {
	needtest.Goroutines(t)
	for _, tls := range []string{"rc_v", "ib"} {
		for num := 1; num <= 2; num++ {
			t.Run(fmt.Sprintf("%s port %d", tls, num), func(t *testing.T) { testPortLost(t, tls, num) })
		}
	}
}

func testPortLost(t *testing.T, tls string, num int) {
	devices := twoPorts(t)
	r, a, b := ported(t, tls)
	// These endpoints use one port each, so the loss of the other port does not affect them.
	tr := r.transport
	r.transport = tr.using(fmt.Sprintf("frail0:%d", 3-num))
	c := r.open()
	r.transport = tr.using(fmt.Sprintf("frail1:%d", 3-num))
	d := r.open()

	told := make(map[*ucp.Endpoint]int)
	mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(ep *ucp.Endpoint, _ error, _ any) { told[ep]++ }}
	there, back := a.connectWith(b, mode), b.connectWith(a, mode)
	r.exchange(there, b, back, a)
	if got := portsOf(there); len(got) != 2 {
		t.Fatalf("lanes over %v", got)
	}
	past, pastBack := c.connectWith(d, mode), d.connectWith(c, mode)
	r.exchange(past, d, pastBack, c)

	long := make([]byte, 1<<20)
	send := r.started(there.TagSend(7, long, nil))
	devices["frail0"].SetLink(num, false)
	recv := r.started(b.TagRecv(7, ucp.FullMask, make([]byte, len(long)), nil))
	r.until("both ends to fail", func() bool { return there.Err() != nil && back.Err() != nil })
	r.until("the end of the send", send.Done)
	r.until("the end of the receive", recv.Done)
	for _, ep := range []*ucp.Endpoint{there, back} {
		if told[ep] != 1 || !errors.Is(ep.Err(), ucs.ErrEndpointTimeout) && !errors.Is(ep.Err(), ucs.ErrConnectionReset) {
			t.Errorf("told %d times: %v", told[ep], ep.Err())
		}
	}
	if send.Err() == nil || recv.Err() == nil {
		t.Errorf("send ended with %v, receive with %v", send.Err(), recv.Err())
	}
	send.Free()
	recv.Free()
	r.must(there.CloseAsync(force))
	r.must(back.CloseAsync(force))
	r.endpoints(0, a, b)

	// The other endpoints are not affected.
	r.exchange(past, d, pastBack, c)
	r.transferLong(past, d)
	if past.Err() != nil || pastBack.Err() != nil || told[past]+told[pastBack] != 0 {
		t.Errorf("the ends over the other port: %v, %v", past.Err(), pastBack.Err())
	}

	devices["frail0"].SetLink(num, true)
	there, back = a.connectWith(b, mode), b.connectWith(a, mode)
	r.exchange(there, b, back, a)
	r.transferLong(there, b)
	if got := portsOf(there); len(got) != 2 {
		t.Errorf("lanes over %v", got)
	}
}
