package ucttest

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// Bounds of waiting. The kernel delivers some events with a delay; after spinRounds idle
// rounds, each further round waits for a descriptor for at most 1 ms.
const (
	spinRounds = 2000
	waitRounds = 10000
)

// Progress runs one round on each host and returns the number of events. It skips closed hosts,
// and a host that is equal to the one before it.
func Progress(hosts ...*Host) int {
	n := 0
	for i, h := range hosts {
		if h.Worker != nil && (i == 0 || h != hosts[i-1]) {
			n += h.Worker.Progress()
		}
	}
	return n
}

// Until progresses the hosts until cond holds. It fails the test if cond does not hold after
// the bounded wait.
func Until(t testing.TB, what string, cond func() bool, hosts ...*Host) {
	t.Helper()
	if !Eventually(cond, hosts...) {
		t.Fatalf("timed out waiting for: %s", what)
	}
}

// Eventually progresses the hosts until cond holds, and reports whether cond held within the
// bounded wait.
func Eventually(cond func() bool, hosts ...*Host) bool {
	for idle := 0; idle < spinRounds+waitRounds; {
		if cond() {
			return true
		}
		if Progress(hosts...) > 0 {
			idle = 0
			continue
		}
		idle++
		runtime.Gosched()
		if idle > spinRounds {
			wait(hosts)
		}
	}
	return cond()
}

// Settle progresses the hosts until spinRounds consecutive rounds had no event. Periodic timers may
// cause events without end, so the number of rounds is bounded.
func Settle(hosts ...*Host) {
	const most = 20 * spinRounds
	for idle, n := 0, 0; idle < spinRounds && n < most; idle, n = idle+1, n+1 {
		if Progress(hosts...) > 0 {
			idle = 0
		}
		runtime.Gosched()
	}
}

// Accept calls op until the result is not ucs.ErrNoResource, and progresses the hosts in
// between. It returns nil or ucs.InProgress; any other result fails the test.
func Accept(t testing.TB, op func() error, hosts ...*Host) error {
	t.Helper()
	var err error
	Until(t, "resources to send", func() bool {
		err = op()
		return !errors.Is(err, ucs.ErrNoResource)
	}, hosts...)
	if err != nil && err != ucs.InProgress {
		t.Fatalf("operation refused: %v", err)
	}
	return err
}
