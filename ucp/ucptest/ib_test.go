//go:build linux

package ucptest

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// A device without a kernel, of a component of its own.
func init() {
	n := verbstest.NewFabric()
	n.Add(verbstest.Config{Name: "fake0"})
	uct.Register(ibtest.Network("fake", n))
}

// onFabric is a transport over that. Peers of datagrams are lost by time only; the time in
// which nobody progresses does not count.
func onFabric(name, tls string) transport {
	return transport{name: name, few: true, busy: true, instant: true, silent: true, pins: true, settings: []setting{
		{"TLS", tls}, {"NET_DEVICES", "fake0:1,lo"}, {"UD_TIMEOUT", "200ms"}, {"KEEPALIVE_INTERVAL", "50ms"},
	}}
}

var (
	// rc connects pairwise, and agrees on that over datagrams.
	rc = onFabric("rc", "rc_v").pairwise()

	ud = onFabric("ud", "ud_v")
)
