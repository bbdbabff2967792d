//go:build linux

package ucptest

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/cm"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	ib "github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Connections by IP address over RDMA devices, without a real device and without the kernel's
// connection manager.

// hand is a simulated machine: a device with loopback addresses, and a connection manager that
// knows it.
type hand struct {
	cm    *rdmacmtest.Kernel
	dev   *verbstest.Kernel
	there atomic.Bool // visible, only for these tests; other tests use all devices
}

var atHand = func() *hand {
	net := verbstest.NewFabric()
	port := verbstest.Port{GIDs: []verbstest.GID{verbstest.IP("fe80::1"), verbstest.IP("127.0.0.1"), verbstest.IP("::1")}}
	h := &hand{cm: rdmacmtest.New(), dev: net.Add(verbstest.Config{Name: "hand0", NodeGUID: rdmacmtest.NodeGUID, Ports: []verbstest.Port{port}})}
	uct.Register(handDevice{ibtest.Network("hand", net), h})
	uct.Register(handshakes{cm.NewComponent(h), h})
	return h
}()

// handDevice is the component of the device, empty while the device is not visible.
type handDevice struct {
	uct.Component
	of *hand
}

// MemoryDomains implements uct.Component.
func (d handDevice) MemoryDomains(cfg *config.Set) ([]uct.MDResource, error) {
	if !d.of.there.Load() {
		return nil, nil
	}
	return d.Component.MemoryDomains(cfg)
}

// handshakes is the connection manager under another name than the system's, while it is visible.
type handshakes struct {
	uct.ConnManagerComponent
	of *hand
}

// Name implements uct.Component.
func (handshakes) Name() string { return "handshakes" }

// Flags implements uct.Component.
func (h handshakes) Flags() uct.ComponentFlags {
	if !h.of.there.Load() {
		return 0
	}
	return h.ConnManagerComponent.Flags()
}

// Channel implements cm.Source.
func (h *hand) Channel() (*rdmacm.EventChannel, error) {
	f, err := h.cm.Open()
	if err != nil {
		return nil, err
	}
	return rdmacm.NewChannel(f)
}

// Devices implements cm.Source.
func (h *hand) Devices() ([]ib.Device, error) {
	return []ib.Device{{Name: h.dev.Name(), NodeType: ib.NodeCA, NodeGUID: rdmacmtest.NodeGUID}}, nil
}

// Open implements cm.Source.
func (h *hand) Open(*ib.Device) (*ib.Context, error) { return ib.NewContext(h.dev.Open(), 0) }

// dialed returns a transport whose endpoints are connected by that connection manager.
func dialed(name, tls string) transport {
	tr := onFabric(name, tls).using("hand0:1,lo").patient().with(setting{"SOCKADDR_TLS_PRIORITY", "handshakes"})
	tr.dialedRDMA = true
	return tr
}

// TestConnectionsRDMA runs the suite for connections by rdmacm over rc. Over other transports and
// IPv6 it checks that connections can be made and used.
func TestConnectionsRDMA(t *testing.T) {
	rc := dialed("rc", "rc_v").pairwise()
	overHand(t, rc, connCases...)
	if race.Enabled || testing.Short() {
		return
	}
	one := dialed("rc, one device", "rc_v").with(oneDevice).pairwise()
	six := dialed("rc, IPv6", "rc_v").pairwise()
	six.listen = netip.IPv6Loopback()
	for _, tr := range []transport{one, six, dialed("ud", "ud_v"), dialed("rc,tcp", "rc_v,tcp").pairwise()} {
		overHand(t, tr, testCase{"exchange", anywhere, inBothModes(testConnExchange)}, testCase{"one-sided", anywhere, inBothModes(testConnOneSided)})
	}
}

// TestListenersRDMA runs the suite for listeners.
func TestListenersRDMA(t *testing.T) {
	overHand(t, dialed("rc", "rc_v").pairwise(), listenCases...)
}

// TestConnectionsVanishRDMA runs the suite for peers that end while they connect.
func TestConnectionsVanishRDMA(t *testing.T) {
	overHand(t, dialed("rc", "rc_v").pairwise(), vanishCases...)
}

// TestConnectionsClosedRDMA runs the suite for the end of connections, without the cases that wait
// for the long timeouts of the connection manager.
func TestConnectionsClosedRDMA(t *testing.T) {
	slow := []string{"at any time", "worker shutdown", "a close that waits for a peer that is lost"}
	overHand(t, dialed("rc", "rc_v").pairwise(), slices.DeleteFunc(slices.Clone(connCloseCases), func(c testCase) bool {
		return slices.Contains(slow, c.name)
	})...)
}

// overHand runs tests and checks that they leave no objects in the connection manager and the
// device.
func overHand(t *testing.T, tr transport, cases ...testCase) {
	t.Run(tr.name, func(t *testing.T) {
		atHand.there.Store(true)
		defer atHand.there.Store(false)
		for i, c := range cases {
			runCase(t, c, i, tr)
		}
		if ids, n := atHand.cm.Objects(), atHand.dev.Objects(); ids != 0 || n != 0 {
			t.Errorf("%d objects of the connection manager and %d of the device are left", ids, n)
		}
	})
}
