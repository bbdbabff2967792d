//go:build linux

package ucptest

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// fabric is a device without a kernel, of a component of its own.
var fabric = func() *verbstest.Fabric {
	n := verbstest.NewFabric()
	n.Add(verbstest.Config{Name: "fake0"})
	uct.Register(ibtest.Network("fake", n))
	return n
}()

// onFabric is a transport over that.
func onFabric(name, tls string) transport {
	return transport{name: name, settings: []setting{{"TLS", tls}, {"NET_DEVICES", "fake0:1,lo"}}, few: true, busy: true, instant: true}
}

var (
	// rc connects pairwise, and agrees on that over datagrams.
	rc = onFabric("rc", "rc_v").pairwise()

	// rcAndTCP agrees over tcp.
	rcAndTCP = onFabric("rc and tcp", "rc_verbs,tcp").pairwise()

	ud = onFabric("ud", "ud_v")
)
