package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestCheckReach checks that a worker with only pairwise transports is refused if another transport
// could not be opened, and that the error is that transport's.
func TestCheckReach(t *testing.T) {
	open := func(name string, kind uct.DeviceType, flags uct.IfaceFlags) *iface {
		return &iface{attr: &uct.IfaceAttr{Resource: uct.Resource{Transport: name, Type: kind}, Flags: flags}}
	}
	rc := open("rc_verbs", uct.DeviceNetwork, uct.IfaceAMBcopy|uct.IfaceConnectToEP)
	ud := open("ud_verbs", uct.DeviceNetwork, uct.IfaceAMBcopy|uct.IfaceConnectToEP|uct.IfaceConnectToIface)
	tcp := open("tcp", uct.DeviceNetwork, uct.IfaceAMBcopy|uct.IfaceConnectToIface)
	self := open("self", uct.DeviceSelf, uct.IfaceAMBcopy|uct.IfaceConnectToIface)
	cma := open("cma", uct.DeviceShared, uct.IfaceConnectToIface)
	aux := open("ud_verbs", uct.DeviceNetwork, uct.IfaceAMBcopy|uct.IfaceConnectToIface)
	aux.index = 1
	ctx := &Context{resources: []resource{{}, {auxiliary: true}}}
	for _, test := range []struct {
		name   string
		ifaces []*iface
		failed string
		ok     bool
	}{
		{"rc alone was asked for", []*iface{rc}, "", true},
		{"rc of another device failed", []*iface{rc}, "rc_verbs", true},
		{"ud failed", []*iface{rc}, "ud_verbs", false},
		{"ud failed, beside self and cma", []*iface{self, rc, cma}, "ud_verbs", false},
		{"ud failed on one of two devices", []*iface{rc, rc, ud}, "ud_verbs", true},
		{"ud failed, beside tcp", []*iface{rc, tcp}, "ud_verbs", true},
		{"rc failed", []*iface{ud}, "rc_verbs", true},
		{"rc failed, and ud serves only wireup", []*iface{aux}, "rc_verbs", false},
		{"ud failed on one of two devices, and serves only wireup", []*iface{rc, aux}, "ud_verbs", true},
		{"self alone", []*iface{self}, "tcp", true},
	} {
		w := &Worker{ctx: ctx, ifaces: test.ifaces}
		w.setUp()
		var first error
		if test.failed != "" {
			w.unopened = []skippedResource{{name: test.failed + "/rxe0:1"}}
			first = ucs.ErrNoMemory
		}
		err := w.checkReach(first)
		if test.ok != (err == nil) || err != nil && !errors.Is(err, ucs.ErrNoMemory) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
