//go:build linux

package tcp

import (
	"errors"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func set(t *testing.T, vars ...string) *config.Set {
	t.Helper()
	cfg := new(config.Set)
	for i := 0; i < len(vars); i += 2 {
		if err := cfg.Modify("TCP_"+vars[i], vars[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// TestLimits checks the limits that C UCX publishes with its defaults, and how settings change
// them.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		vars []string
		am   uct.AMLimits
		put  uct.RMALimits
	}{
		{
			nil,
			uct.AMLimits{MaxShort: 8192, MaxBcopy: 8192, MaxZcopy: 65536, MaxZcopyHdr: 8037, MaxIOV: 6, OptZcopyAlign: 1},
			uct.RMALimits{MaxZcopy: maxPut, MaxIOV: 6, OptZcopyAlign: 1},
		},
		{
			[]string{"TX_SEG_SIZE", "16k", "RX_SEG_SIZE", "1m", "MAX_IOV", "10"},
			uct.AMLimits{MaxShort: 16384, MaxBcopy: 16384, MaxZcopy: 1 << 20, MaxZcopyHdr: 16384 + 5 - 32 - 12*16, MaxIOV: 10, OptZcopyAlign: 1},
			uct.RMALimits{MaxZcopy: maxPut, MaxIOV: 10, OptZcopyAlign: 1},
		},
		{
			[]string{"MAX_IOV", "0", "TX_SEG_SIZE", "100"},
			uct.AMLimits{MaxShort: 100, MaxBcopy: 100},
			uct.RMALimits{},
		},
		{
			[]string{"PUT_ENABLE", "n"},
			uct.AMLimits{MaxShort: 8192, MaxBcopy: 8192, MaxZcopy: 65536, MaxZcopyHdr: 8037, MaxIOV: 6, OptZcopyAlign: 1},
			uct.RMALimits{},
		},
	} {
		o, err := loadOptions(set(t, c.vars...))
		if err != nil {
			t.Errorf("%v: %v", c.vars, err)
			continue
		}
		i := &iface{opts: o, md: newDomain(mdOptions{})}
		a := i.describe(&netdev{name: "none", mtu: 1500})
		if a.AM != c.am || a.Put != c.put {
			t.Errorf("%v: %+v %+v", c.vars, a.AM, a.Put)
		}
		if a.Flags.Has(uct.IfaceAMZcopy) != (c.am.MaxZcopy > 0) || a.Flags.Has(uct.IfacePutZcopy) != (c.put.MaxZcopy > 0) {
			t.Errorf("%v: flags %v", c.vars, a.Flags)
		}
	}
}

// TestCapabilities checks the capabilities that C UCX 1.22.0 reports, and the order of puts and
// messages, which a single stream keeps and C does not announce.
func TestCapabilities(t *testing.T) {
	h := newHost(t, "")
	a := h.iface.Attr()
	if a.Flags != 0x4053c00000004f|uct.IfacePutAMOrder || a.Events != 0xb {
		t.Errorf("flags %#x, events %#x", uint64(a.Flags), uint32(a.Events))
	}
	if a.DeviceAddrLen != 18 || a.IfaceAddrLen != 2 || a.EpAddrLen != 10 || a.MaxEndpoints != 256 || a.NumPaths != 1 {
		t.Errorf("%+v", a)
	}
	if many := newHost(t, "", "MAX_NUM_EPS=1000").iface.Attr().MaxEndpoints; many != 1000 {
		t.Errorf("MAX_NUM_EPS=1000 gives %d", many)
	}
	md := h.md.Attr()
	if md.Flags != uct.MDFlagRegister || md.RkeyPackedSize != 0 || md.Component != "tcp" || md.Name != "tcp" {
		t.Errorf("domain %+v", md)
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct {
		says string // contains the value as it was set
		vars []string
	}{
		{"TX_SEG_SIZE is 128K, expected 8 to UCX_TCP_RX_SEG_SIZE, 64K", []string{"TX_SEG_SIZE", "128k"}},
		{"TX_SEG_SIZE is inf, ", []string{"TX_SEG_SIZE", "-1"}},
		{"TX_SEG_SIZE is 4, ", []string{"TX_SEG_SIZE", "4"}},          // less than a header
		{"TX_SEG_SIZE of 100 is too", []string{"TX_SEG_SIZE", "100"}}, // too short for six entries
		{"MAX_IOV of 600", []string{"MAX_IOV", "600"}},                // the same
		{"MAX_IOV of inf", []string{"MAX_IOV", "inf"}},
		{"MAX_CONN_RETRIES is 256, the limit is 255", []string{"MAX_CONN_RETRIES", "256"}},
		{"MAX_CONN_RETRIES is ", []string{"MAX_CONN_RETRIES", "inf"}},
		{"SYN_CNT is 128, the limit is 127", []string{"SYN_CNT", "128"}},
		{"SYN_CNT is inf, ", []string{"SYN_CNT", "inf"}},
		{"PORT_RANGE ends at 70000", []string{"PORT_RANGE", "1-70000"}},
		{"TX_SEG_SIZE is 8K, expected 8 to UCX_TCP_RX_SEG_SIZE, 1K", []string{"RX_SEG_SIZE", "1k", "MAX_IOV", "1000"}},
		{"RX_SEG_SIZE is inf, the limit is 1G", []string{"RX_SEG_SIZE", "inf"}}, // one byte of a peer would allocate that
		{"RX_SEG_SIZE is 3G, ", []string{"RX_SEG_SIZE", "3g"}},
	} {
		_, err := loadOptions(set(t, c.vars...))
		if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.vars, err, c.says)
		}
	}
	if _, err := (component{}).OpenMD("tcp", set(t, "AF_PRIO", "inet,ipx")); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("family ipx: %v", err)
	}
	if _, err := (component{}).OpenMD("udp", nil); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("domain udp: %v", err)
	}
	h := newHost(t, "")
	for _, p := range []uct.IfaceParams{{Transport: "udp", Device: "lo"}, {Transport: "tcp", Device: "nosuch0"}} {
		if _, err := h.md.OpenIface(h.w, p, nil); !errors.Is(err, ucs.ErrNoDevice) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestLargestSettings: values beyond the kernel's limit, or that mean no limit, become the largest
// possible value.
func TestLargestSettings(t *testing.T) {
	for _, v := range []string{
		"USER_TIMEOUT=3000000s", "USER_TIMEOUT=5000000s", "USER_TIMEOUT=inf", "SYN_CNT=127", "KEEPCNT=1000", "KEEPIDLE=100000s",
		"KEEPINTVL=100000s", "SNDBUF=inf", "RCVBUF=inf", "SENDV_THRESH=inf", "MAX_NUM_EPS=inf", "MAX_POLL=-1", "MAX_CONN_RETRIES=255",
	} {
		t.Run(v, func(t *testing.T) {
			_, b, ep := pair(t, v)
			if v == "USER_TIMEOUT=5000000s" {
				ms, err := unix.GetsockoptInt(int(ep.conn.fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
				if err != nil || ms != math.MaxInt32 {
					t.Errorf("user timeout %d ms, %v", ms, err)
				}
			}
			exact(t, b, 1)
		})
	}
}

func TestKeepaliveSettings(t *testing.T) {
	for _, c := range []struct {
		vars []string
		want keepalive
	}{
		{nil, keepalive{true, 10e9, 2e9, 0}},
		{[]string{"KEEPIDLE", "auto"}, keepalive{true, 10e9, 2e9, 0}},
		{[]string{"KEEPIDLE", "auto", "KEEPINTVL", "auto"}, keepalive{true, 10e9, 2e9, 0}},
		{[]string{"KEEPIDLE", "1ms", "KEEPINTVL", "1500ms", "KEEPCNT", "1000"}, keepalive{true, 1e9, 1e9, 127}},
	} {
		o, err := loadOptions(set(t, c.vars...))
		if err != nil || o.keep != c.want {
			t.Errorf("%v: %+v, %v", c.vars, o.keep, err)
		}
	}
	k := keepalive{true, 10e9, 2e9, 3}
	if k.total() != 16e9 {
		t.Errorf("total %v", k.total())
	}
	if n := systemKeepCnt(); n < 1 {
		t.Errorf("the system probes %d times", n)
	}
}

// TestMaxBandwidth checks that the limit is parsed as other bandwidths are.
func TestMaxBandwidth(t *testing.T) {
	for value, want := range map[string]float64{"2200MBs": 2200 << 20, "8bps": 1, "auto": math.Inf(1), "5MB": -1} {
		cfg := new(config.Set)
		err := cfg.Modify("TCP_MAX_BW", value)
		var o options
		if err == nil {
			o, err = loadOptions(cfg)
		}
		if want < 0 {
			ucttest.WantStatus(t, value, err, ucs.ErrInvalidParam)
		} else if err != nil || o.maxBW != want {
			t.Errorf("%s: %v, %v; want %v", value, o.maxBW, err, want)
		}
	}
}

// TestSettingNames checks names and defaults of settings against those of C UCX.
func TestSettingNames(t *testing.T) {
	cfg := new(config.Set)
	for name, want := range map[string]string{
		"AF_PRIO": "inet,inet6", "BRIDGE_ENABLE": "n", "MAX_NUM_EPS": "256", "FAILURE": "DIAG",
		"TX_SEG_SIZE": "8K", "RX_SEG_SIZE": "64K", "MAX_IOV": "6", "SENDV_THRESH": "2K",
		"PREFER_DEFAULT": "y", "PUT_ENABLE": "y", "MAX_POLL": "16", "MAX_CONN_RETRIES": "25",
		"NODELAY": "y", "SNDBUF": "auto", "RCVBUF": "auto", "SYN_CNT": "auto", "USER_TIMEOUT": "auto",
		"PORT_RANGE": "0", "MAX_BW": "2200MBs", "KEEPIDLE": "10s", "KEEPCNT": "auto", "KEEPINTVL": "2s",
		"EP_BIND_SRC_ADDR": "try",
	} {
		if got, _, ok := cfg.Lookup("TCP_" + name); !ok || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, ok, want)
		}
	}
}

// TestMaxPoll checks that MAX_POLL bounds how much one round reads from a connection.
func TestMaxPoll(t *testing.T) {
	const messages = 8
	for _, c := range []struct {
		set  string
		want int // reads, each of one message
	}{{"MAX_POLL=0", 1}, {"MAX_POLL=2", 3}, {"MAX_POLL=-1", messages}} {
		h := newHost(t, "", c.set)
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[1])
		unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 8<<20)
		conn := h.iface.newConn(fds[0], stateConnected)
		msg := am(1, string(make([]byte, h.iface.maxRxFrame-hdrLen)))
		for range messages {
			if n, err := unix.Write(fds[1], msg); n != len(msg) {
				t.Skipf("socket buffers are too small: %d, %v", n, err)
			}
		}
		conn.read()
		if len(h.got) != c.want {
			t.Errorf("%s: %d messages were read, want %d", c.set, len(h.got), c.want)
		}
	}
}
