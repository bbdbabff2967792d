package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// rdmaTree returns a machine with a sysfs tree of package verbs. Its devices are opened by open; if
// that is nil, they belong to an unknown driver.
func rdmaTree(t *testing.T, tree string, open func(*verbs.Device) (*verbs.Context, error)) rdmaMachine {
	t.Helper()
	ucttest.NoLeaks(t)
	listing, err := os.ReadFile(filepath.Join("../../uct/ib/verbs/testdata/sysfs", tree+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := verbstest.Sysfs(root, string(listing)); err != nil {
		t.Fatal(err)
	}
	if open == nil {
		open = func(*verbs.Device) (*verbs.Context, error) { return nil, errors.New("a driver that is not known") }
	}
	return rdmaMachine{sysfs: root, open: open}
}

func opensFake(k *verbstest.Kernel) func(*verbs.Device) (*verbs.Context, error) {
	return func(d *verbs.Device) (*verbs.Context, error) { return verbs.NewContext(k.Open(), d.ABIVersion) }
}

func TestRDMAText(t *testing.T) {
	failing := verbstest.New()
	failing.FailCall("DEVICE.QUERY_PORT", 0, syscall.EIO)
	lo := rdmaTree(t, "rxe-lo", nil)
	with := func(open func(*verbs.Device) (*verbs.Context, error)) rdmaMachine {
		return rdmaMachine{lo.sysfs, open, func(string) ([]string, error) { return []string{"rc_verbs", "ud_verbs"}, nil }}
	}
	without := rdmaMachine{sysfs: t.TempDir(), open: (*verbs.Device).Open}
	if err := verbstest.Sysfs(without.sysfs, "class/infiniband -> "+filepath.Join(lo.sysfs, "class/infiniband")); err != nil {
		t.Fatal(err)
	}
	denied := func(d *verbs.Device) (*verbs.Context, error) {
		return nil, &verbs.Error{Device: d.Uverbs, Call: "open " + d.Path, Errno: syscall.EACCES, Hint: "needs permission"}
	}
	const rxePort = `#
#           Port: 1
#                state: ACTIVE (LinkUp)
#           link layer: Ethernet
#                speed: 2.5 Gb/s (1X SDR)
`
	const rxeGIDs = `#                gid 0: fe80::200:ff:fe00:0, RoCE v2, lo
#                gid 1: 127.0.0.1, RoCE v2, lo
#                gid 2: ::1, RoCE v2, lo
`
	const rxe = `#
# RDMA device: rxe0
#            node type: CA
#            node guid: 0200:00ff:fe00:0000
#               netdev: lo
`
	for _, tt := range []struct {
		name string
		m    rdmaMachine
		want string
	}{
		{"none", rdmaMachine{sysfs: t.TempDir()}, ""},
		{"usable", with(opensFake(verbstest.New())), `#
# RDMA device: rxe0
#               driver: rxe
#            node type: CA
#            node guid: 0200:00ff:fe00:0000
#               netdev: lo
#           transports: rc_verbs, ud_verbs
` + rxePort + "#                  mtu: 4096 bytes, at most 4096\n" + rxeGIDs},
		{"no permission", with(denied), rxe +
			"#   < failed to open RDMA device rxe0: uverbs0: open /dev/infiniband/uverbs0: permission denied: needs permission >\n" + rxePort + rxeGIDs},
		{"no module", without, rxe +
			"#   < failed to open RDMA device rxe0: verbs: rxe0 has no node to open: the kernel's module ib_uverbs is not loaded, or does not know the device: no such device >\n" +
			rxePort + rxeGIDs},
		{"a port fails", with(opensFake(failing)), strings.Replace(rxe, "#            node type", "#               driver: rxe\n#            node type", 1) +
			"#   < failed to open RDMA device rxe0: verbstest0: DEVICE.QUERY_PORT: input/output error: the device was removed or has failed; reopen it when it is available again >\n" + rxePort + rxeGIDs},
		{"iWARP", rdmaTree(t, "irdma", nil), `#
# RDMA device: irdma0
#               driver: ice
#            node type: RNIC
#            node guid: b696:91ff:fea5:c810
#             firmware: 1.54
#           pci device: 0000:17:00.0 (8086:1592)
#            numa node: 0
#   < failed to open RDMA device irdma0: a driver that is not known >
#
#           Port: 1
#                state: ACTIVE (LinkUp)
#           link layer: Ethernet
#                speed: 100 Gb/s (4X EDR)
#                gid 0: b496:91a5:c810:0000:0000:0000:0000:0000, iWARP
#
# RDMA device: rocep23s0f1
#               driver: ice
#            node type: CA
#            node guid: b696:91ff:fea5:c811
#             firmware: 1.54
#           pci device: 0000:17:00.1 (8086:1592)
#            numa node: 0
#   < failed to open RDMA device rocep23s0f1: a driver that is not known >
#
#           Port: 1
#                state: ACTIVE (LinkUp)
#           link layer: Ethernet
#                speed: 25 Gb/s (1X EDR)
#                gid 0: fe80::b696:91ff:fea5:c811, RoCE v2, ens2f1
#                gid 1: 10.23.0.2, RoCE v2, ens2f1
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			writeRDMA(&b, tt.m.find())
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
	var b strings.Builder
	writeRDMA(&b, rdmaTree(t, "mlx5", nil).find())
	for _, want := range []string{
		"#                board: BL_12001644\n", "#           link layer: InfiniBand\n", "#                  lid: 31, of the subnet manager 1\n",
		"#                gid 0: fe80:0000:0000:0000:0800:3803:00bb:16a8, IB\n", "#                state: DOWN (Disabled)\n",
		"#                gid 2: 0000:0000:0000:0000:0000:ffff:c0a8:0a05, RoCE v1, bond0\n", "#                gid 3: 192.168.10.5, RoCE v2, bond0\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestRDMARareText(t *testing.T) {
	d := rdmaDevice{Device: verbs.Device{Name: "x", NUMANode: -1, Ports: []verbs.Port{{Num: 2}}}, lacks: errors.New("too small")}
	for i := range 20 {
		d.Ports[0].GIDs = append(d.Ports[0].GIDs, verbs.PortGID{Index: 2 * i, GID: verbs.GID{15: 1}, Type: verbs.GIDUnknown})
	}
	var b strings.Builder
	writeRDMA(&b, rdma{devices: []rdmaDevice{d}, err: errors.New("no such luck")})
	head, tail := `# < failed to list RDMA devices: no such luck >
#
# RDMA device: x
#            node type: unknown
#            node guid: 0000:0000:0000:0000
#           transports: none (too small)
#
#           Port: 2
#                state: NOP
#           link layer: Unspecified
#                gid 0: 0000:0000:0000:0000:0000:0000:0000:0001, unknown
`, `#               gid 30: 0000:0000:0000:0000:0000:0000:0000:0001, unknown
#                 gids: 4 more
`
	if got := b.String(); !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) {
		t.Error(got)
	}
}

func TestRDMAJSON(t *testing.T) {
	b, err := json.Marshal(rdmaJSON(rdmaTree(t, "mlx5", nil).find()))
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path []any
		want any
	}{
		{[]any{0, "name"}, "mlx5_0"},
		{[]any{0, "error"}, "a driver that is not known"},
		{[]any{0, "driver"}, "mlx5_core"},
		{[]any{0, "hca_type"}, "MT4123"},
		{[]any{0, "pci"}, map[string]any{"address": "0000:81:00.0", "vendor": 5555.0, "device": 4123.0}},
		{[]any{0, "numa_node"}, 1.0},
		{[]any{0, "transports"}, []any{}},
		{[]any{0, "ports", 0, "bandwidth"}, 25e9},
		{[]any{0, "ports", 0, "speed"}, "4X HDR"},
		{[]any{0, "ports", 0, "lid"}, 31.0},
		{[]any{0, "ports", 0, "mtu"}, nil},
		{[]any{0, "ports", 0, "gids"}, []any{map[string]any{"index": 0.0, "gid": "fe80:0000:0000:0000:0800:3803:00bb:16a8", "type": "IB"}}},
		{[]any{1, "numa_node"}, nil},
		{[]any{1, "ports", 0, "physical_state"}, "Disabled"},
		{[]any{2, "ports", 0, "gids", 3, "netdev"}, "bond0"},
	} {
		if diff := cmp.Diff(tt.want, at(t, doc, tt.path...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.path, diff)
		}
	}
	list := rdmaJSON(rdmaTree(t, "rxe-lo", opensFake(verbstest.New())).find())
	if len(list) != 1 || list[0].Error != "" || list[0].Driver != "rxe" || *list[0].Ports[0].MTU != 4096 || *list[0].Ports[0].MaxMTU != 4096 {
		t.Errorf("%+v", list)
	}
	if list := rdmaJSON(rdma{}); list != nil {
		t.Errorf("of no devices: %+v", list)
	}
}
