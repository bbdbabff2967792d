//go:build linux

package ud_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	_ "github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var (
	check    = rigtest.Check
	settings = rigtest.Settings
	network  = rigtest.New
	port     = rigtest.Port
)

// transport is the transport under test. Simulated networks use a short timeout of peers; devices
// of the kernel, where machines are slow, a longer one.
var transport = rigtest.Transport{
	Name: "ud_verbs", Silent: true, Variants: ways, Skip: quickly,
	Pairs:       []string{"UD_TIMEOUT", "400ms", "UD_TIMER_TICK", "2ms"},
	DevicePairs: []string{"UD_TIMEOUT", "2s"},
}

// fixture returns the fixture of hosts on the first device of a network. If a setting is given
// twice, the last value counts.
func fixture(t testing.TB, net *rigtest.Rig, pairs ...string) ucttest.Fixture {
	t.Helper()
	return transport.Fixture(t, net, pairs...)
}

func worker(t testing.TB) *uct.Worker {
	t.Helper()
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func ifaceParams() uct.IfaceParams {
	return uct.IfaceParams{Transport: "ud_verbs", Device: "rxe0:1"}
}
