//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	_ "github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

type rig = rigtest.Rig

var check = rigtest.Check

// transport is the transport under test. On devices of the kernel, where machines are slow, the
// timeout makes an absent peer fail after two seconds instead of eight.
var transport = rigtest.Transport{Name: "rc_verbs", Variants: ways, DevicePairs: []string{"RC_VERBS_TIMEOUT", "200ms"}}

// newRig makes a network of devices like those of soft-RoCE on virtual Ethernet, with one port
// each.
func newRig(t testing.TB, ports ...verbstest.Port) *rig {
	t.Helper()
	var list []verbstest.Config
	for _, p := range ports {
		list = append(list, rigtest.Port(p))
	}
	return rigtest.New(t, list...)
}

// fixture returns the fixture of hosts on one device.
func fixture(t testing.TB, r *rig, pairs ...string) ucttest.Fixture {
	t.Helper()
	return transport.Fixture(t, r, pairs...)
}
