//go:build linux

package ucptest

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// fake is a device without a kernel, with a component of its own.
var fake *verbstest.Kernel

func init() {
	n := verbstest.NewFabric()
	fake = n.Add(verbstest.Config{Name: "fake0"})
	uct.Register(ibtest.Network("fake", n))
}

// onFabric returns a transport over that device. Peers over datagrams are lost by timeouts only;
// time in which no worker progresses does not count.
func onFabric(name, tls string) transport {
	return transport{name: name, few: true, busy: true, instant: true, silent: true, settings: []setting{
		{"TLS", tls}, {"NET_DEVICES", "fake0:1,lo"}, {"UD_TIMEOUT", "20s"}, {"KEEPALIVE_INTERVAL", "1s"},
	}}
}

// vanishing returns the transport with frequent checks of peers, for tests in which peers vanish.
func (tr transport) vanishing() transport {
	return tr.with(setting{"UD_TIMEOUT", "200ms"}, setting{"KEEPALIVE_INTERVAL", "50ms"})
}

// frugally returns the transport with allocations counted.
func (tr transport) frugally() transport {
	tr.profiled = true
	return tr
}

var (
	// rc lanes are connected pairwise, with wireup over datagrams.
	rc = onFabric("rc", "rc_v").pairwise().frugally()

	ud = onFabric("ud", "ud_v").frugally()

	// With tcp, which carries wireup and keepalive if ud is not selected.
	rcTCP     = onFabric("rc,tcp", "rc_v,tcp").pairwise().showing(lanes...)
	rcTCPOnly = onFabric("rc,tcp without ud", `\rc_verbs,tcp`).pairwise().showing(lanes...)
	udTCP     = onFabric("ud,tcp", "ud_v,tcp").showing(lanes...)

	// With self, which serves endpoints to the own worker.
	ibSelf = onFabric("rc,ud,self", "ib,self").pairwise().showing(lanes...)

	// The shortest possible queues, on which every operation has to wait.
	rcLeast = onFabric("rc, least queues", "rc_v").with(least...).pairwise()
	udLeast = onFabric("ud, least queues", "ud_v").with(least...)

	least = []setting{
		{"RC_VERBS_TX_QUEUE_LEN", "2"}, {"RC_VERBS_TX_CQ_LEN", "2"}, {"RC_VERBS_RX_QUEUE_LEN", "2"}, {"RC_VERBS_TX_MAX_BUFS", "2"},
		{"RC_VERBS_TX_MAX_POLL", "1"}, {"RC_VERBS_RX_MAX_POLL", "1"},
		{"UD_VERBS_TX_QUEUE_LEN", "2"}, {"UD_VERBS_RX_QUEUE_LEN", "2"}, {"UD_VERBS_TX_MAX_BUFS", "2"},
		{"UD_VERBS_TX_MAX_POLL", "1"}, {"UD_VERBS_RX_MAX_POLL", "1"}, {"UD_VERBS_TIMER_TICK", "1ms"},
	}
)
