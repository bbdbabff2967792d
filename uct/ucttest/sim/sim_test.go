package sim

import (
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// without returns a function that removes capabilities.
func without(flags uct.IfaceFlags) func(int, *uct.IfaceAttr) {
	return func(_ int, a *uct.IfaceAttr) { a.Flags &^= flags }
}

func TestConformance(t *testing.T) {
	needtest.Goroutines(t)
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"defaults", Options{}},
		{"latency", Options{Latency: 3, ConnectDelay: 5}},
		{"buffered", Options{Buffered: true}},
		{"keep data", Options{KeepData: true}},
		{"small window", Options{Window: 1}},
		{"shared credits", Options{Credits: 2}},
		{"several devices", Options{Name: "many", Devices: 3}},
		{"reorder", Options{Reorder: 1}},
		{"keyless", Options{Keyless: true}},
		{"pairs", Options{Attr: without(uct.IfaceConnectToIface)}},
		{"short only", Options{Attr: without(uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfaceConnectToEP)}},
		{"no descriptor", Options{Attr: func(_ int, a *uct.IfaceAttr) { a.Events = 0 }}},
		{"handles needed", Options{DomainAttr: func(a *uct.MDAttr) { a.Flags |= uct.MDFlagNeedMemh }}},
		{"allocated only", Options{DomainAttr: func(a *uct.MDAttr) { a.Flags &^= uct.MDFlagRegister }}},
		{"late", Options{Plan: fault.Late(4)}},
		{"storm", Options{Plan: fault.Storm(1, 20, 4)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := ucttest.Fixture{Component: New(c.o), SelectiveWakeup: true, Skip: make(map[string]string)}
			if c.o.Reorder != 0 {
				f.Skip["no allocations"] = "mixing allocates"
			}
			ucttest.Run(t, f)
		})
	}
}
