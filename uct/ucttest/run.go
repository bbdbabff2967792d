package ucttest

import (
	"strings"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// tests is the suite. needs are the capabilities that a test requires. If a capability is
// missing, the test is skipped, and the log names the capability.
var tests = []struct {
	name  string
	needs uct.IfaceFlags
	run   func(t *testing.T, f *Fixture)
}{
	{"component", 0, testComponent},
	{"attributes", 0, testAttributes},
	{"optional parts", 0, testOptional},
	{"unsupported", 0, testUnsupported},
	{"addresses", 0, testAddresses},
	{"hostile addresses", uct.IfaceConnectToIface, testHostileAddresses},
	{"loopback only", 0, testLoopbackOnly},
	{"am", anyAM, testAM},
	{"am limits", anyAM, testAMLimits},
	{"am short", uct.IfaceAMShort, testAMShort},
	{"am bcopy", uct.IfaceAMBcopy, testAMBcopy},
	{"am zcopy", uct.IfaceAMZcopy, testAMZcopy},
	{"am order", anyAM, testAMOrder},
	{"am both ways", anyAM, testAMBothWays},
	{"am send now", anyAM, testAMSendNow},
	{"am handlers", anyAM, testAMHandlers},
	{"am from handlers", anyAM, testAMFromHandlers},
	{"sources", anyAM, testSources},
	{"shared sources", anyAM, testSharedSources},
	{"completion of many", anyAM, testCompletionOfMany},
	{"refusal", anyAM | uct.IfacePending, testRefusal},
	{"pending order", anyAM | uct.IfacePending, testPendingOrder},
	{"pending dispatch", anyAM | uct.IfacePending, testPendingDispatch},
	{"pending purge", anyAM | uct.IfacePending, testPendingPurge},
	{"pending busy", anyAM | uct.IfacePending, testPendingBusy},
	{"flush", 0, testFlush},
	{"flush cancel", anyAM, testFlushCancel},
	{"check", uct.IfaceEpCheck, testCheck},
	{"put", anyPut, testPut},
	{"get", anyGet, testGet},
	{"remote memory refused", 0, testRemoteRefused},
	{"remote permission refused", 0, testPermissionRefused},
	{"atomic", anyAtomic, testAtomic},
	{"atomic misaligned", anyAtomic, testAtomicMisaligned},
	{"close", anyAM, testClose},
	{"close in flight", anyAM, testCloseInFlight},
	{"peer gone", anyAM | uct.IfaceErrHandlePeerFail, testPeerGone},
	{"many endpoints", anyAM, testManyEndpoints},
	{"two workers", anyAM, testTwoWorkers},
	{"arm idle", 0, testArmIdle},
	{"wakeup", anyAM, testWakeup},
	{"wakeup for some events", anyAM, testWakeupFor},
	{"wakeup of the sender", anyAM | uct.IfacePending, testWakeupSender},
	{"no allocations", anyAM, testNoAllocations},
}

// Groups of capabilities. A test that needs a group runs if one of its capabilities is present.
const (
	anyAM     = uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy
	anyPut    = uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy
	anyGet    = uct.IfaceGetBcopy | uct.IfaceGetZcopy
	anyAtomic = uct.IfaceAtomicCPU | uct.IfaceAtomicDevice
)

// lacks names the capabilities of needs that are missing in flags. Of a group, one bit
// suffices; all other bits are required. The result is empty if nothing is missing.
func lacks(flags, needs uct.IfaceFlags) string {
	var names []string
	for _, group := range []uct.IfaceFlags{anyAM, anyPut, anyGet, anyAtomic} {
		if needs&group == group {
			if flags&group == 0 {
				names = append(names, "any of "+group.String())
			}
			needs &^= group
		}
	}
	if missing := needs &^ flags; missing != 0 {
		names = append(names, missing.String())
	}
	return strings.Join(names, "; ")
}

// Run runs the conformance suite of transports. Each test opens its own hosts, and must leave
// no goroutine running and no descriptor open.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	var flags uct.IfaceFlags
	looked := false
	look := func(t *testing.T) {
		h := f.Open(t)
		flags, looked = h.Iface.Attr().Flags, true
		h.Close(t)
	}
	t.Run("open and close", func(t *testing.T) {
		NoLeaks(t)
		look(t)
	})
	known := make(map[string]bool)
	for _, test := range tests {
		known[test.name] = true
		t.Run(test.name, func(t *testing.T) {
			if why := f.Skip[test.name]; why != "" {
				t.Skip(why)
			}
			if !looked { // the flag -run has excluded the first test
				look(t)
			}
			if missing := lacks(flags, test.needs); missing != "" {
				t.Skip("the transport lacks " + missing)
			}
			NoLeaks(t)
			test.run(t, &f)
		})
	}
	var unknown []string
	for name := range f.Skip {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("Fixture.Skip names tests that do not exist: %s", strings.Join(unknown, ", "))
	}
}
