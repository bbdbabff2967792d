//go:build linux

package ucptest

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// fake is a device without a kernel, of a component of its own.
var fake *verbstest.Kernel

func init() {
	n := verbstest.NewFabric()
	fake = n.Add(verbstest.Config{Name: "fake0"})
	uct.Register(ibtest.Network("fake", n))
}

// onFabric is a transport over that. Peers of datagrams are lost by time only; the time in
// which nobody progresses does not count.
func onFabric(name, tls string) transport {
	return transport{name: name, few: true, busy: true, instant: true, silent: true, settings: []setting{
		{"TLS", tls}, {"NET_DEVICES", "fake0:1,lo"}, {"UD_TIMEOUT", "20s"}, {"KEEPALIVE_INTERVAL", "1s"},
	}}
}

// vanishing is the transport with peers looked for all the time, for tests in which some
// vanish.
func (tr transport) vanishing() transport {
	return tr.with(setting{"UD_TIMEOUT", "200ms"}, setting{"KEEPALIVE_INTERVAL", "50ms"})
}

// frugally is the transport with allocations counted.
func (tr transport) frugally() transport {
	tr.profiled = true
	return tr
}

var (
	// rc connects pairwise, and agrees on that over datagrams.
	rc = onFabric("rc", "rc_v").pairwise().frugally()

	ud = onFabric("ud", "ud_v").frugally()

	// With tcp beside them, which without ud carries wireup and keepalive.
	rcTCP     = onFabric("rc,tcp", "rc_v,tcp").pairwise().showing(lanes...)
	rcTCPOnly = onFabric("rc,tcp without ud", `\rc_verbs,tcp`).pairwise().showing(lanes...)
	udTCP     = onFabric("ud,tcp", "ud_v,tcp").showing(lanes...)

	// With self, which an endpoint to its own worker takes.
	ibSelf = onFabric("rc,ud,self", "ib,self").pairwise().showing(lanes...)

	// The least queues there can be, on which everything has to wait.
	rcLeast = onFabric("rc, least queues", "rc_v").with(least...).pairwise()
	udLeast = onFabric("ud, least queues", "ud_v").with(least...)

	least = []setting{
		{"RC_VERBS_TX_QUEUE_LEN", "2"}, {"RC_VERBS_TX_CQ_LEN", "2"}, {"RC_VERBS_RX_QUEUE_LEN", "2"}, {"RC_VERBS_TX_MAX_BUFS", "2"},
		{"RC_VERBS_TX_MAX_POLL", "1"}, {"RC_VERBS_RX_MAX_POLL", "1"},
		{"UD_VERBS_TX_QUEUE_LEN", "2"}, {"UD_VERBS_RX_QUEUE_LEN", "2"}, {"UD_VERBS_TX_MAX_BUFS", "2"},
		{"UD_VERBS_TX_MAX_POLL", "1"}, {"UD_VERBS_RX_MAX_POLL", "1"}, {"UD_VERBS_TIMER_TICK", "1ms"},
	}
)
