//go:build linux

package tcp

import (
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// onceRaced skips the test with the race detector: the settings change how many bytes are sent at
// once, not which goroutines run. The suite with the defaults covers those.
func onceRaced(t *testing.T, name string) {
	t.Helper()
	if race.Enabled && name != "defaults" {
		t.Skip("the race detector has seen the same goroutines with the defaults")
	}
}

func TestConformance(t *testing.T) {
	needtest.Goroutines(t)
	for name, vars := range map[string][]string{
		"defaults":      nil,
		"inet6":         {"AF_PRIO", "inet6"},
		"small sockets": {"SNDBUF", "8k", "RCVBUF", "8k"},
		"odd sizes":     {"TX_SEG_SIZE", "4095", "RX_SEG_SIZE", "100001", "MAX_IOV", "3", "SENDV_THRESH", "1"},
		"no zcopy":      {"MAX_IOV", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			onceRaced(t, name)
			if name == "inet6" && !hasIPv6Loopback() {
				t.Skip("lo has no IPv6 address")
			}
			f := ucttest.Fixture{Component: component{}, Transport: "tcp", Device: "lo", Config: set(t, vars...)}
			if name == "small sockets" {
				f.Skip = map[string]string{"wakeup": "flushes more than the sockets hold before the peer may read"}
			}
			ucttest.Run(t, f)
		})
	}
}

func TestConformanceOfTLS(t *testing.T) {
	comp := tlsComponent(t, certtest.New().Mutual("peer"))
	for name, vars := range map[string][]string{
		"defaults":      nil,
		"inet6":         {"AF_PRIO", "inet6"},
		"small sockets": {"SNDBUF", "8k", "RCVBUF", "8k"},
		"odd sizes":     {"TX_SEG_SIZE", "4095", "RX_SEG_SIZE", "100001"},
	} {
		t.Run(name, func(t *testing.T) {
			onceRaced(t, name)
			if name == "inet6" && !hasIPv6Loopback() {
				t.Skip("lo has no IPv6 address")
			}
			f := ucttest.Fixture{Component: comp, Transport: "tls", Device: "lo", Config: set(t, vars...)}
			f.Skip = map[string]string{"no allocations": "crypto/tls makes a reader for each record"}
			if name == "small sockets" {
				f.Skip["wakeup"] = "flushes more than the sockets hold before the peer may read"
			}
			ucttest.Run(t, f)
		})
	}
}
