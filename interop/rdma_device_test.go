//go:build linux

package interop

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRDMAMatrix runs every operation over RDMA devices, in both directions.
func TestRDMAMatrix(t *testing.T) {
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		runMatrix(t, where, ours, theirs, rdmaGroups(t, theirs), rdmaSizes())
	})
}

// listenerShort is the cases of TestRDMAListener's short form, by route.
var listenerShort = map[string][]string{
	"rc_verbs": {"peer/listener's worker"},
	datagram:   {"peer/other worker"},
	anyIB:      {"none/listener's worker"},
}

// TestRDMAListener is TestListener over RDMA devices: with their connection manager, whose device
// the route selects.
func TestRDMAListener(t *testing.T) {
	sizes := []int{8, 100_000}
	if rdmaLong {
		sizes = []int{8, 16384, 100_000, 1 << 18}
	}
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		for _, mode := range []string{"none", "peer"} {
			for _, worker := range []string{"listener's worker", "other worker"} {
				name := mode + "/" + worker
				if !rdmaLong && !slices.Contains(listenerShort[over.name], name) {
					continue
				}
				t.Run(name, func(t *testing.T) { listens(t, where, ours, theirs, weServe, over, mode, worker, sizes...) })
			}
		}
	})
}

// listens runs a whole connection of a client to a listener.
func listens(t *testing.T, where *place, ours, theirs program, weServe bool, over route, mode, worker string, sizes ...int) {
	t.Helper()
	d, err := startDialing(where, ours, theirs, weServe, setting{mode: mode}, over)
	if err != nil {
		t.Fatal(err)
	}
	defer d.report(t)
	if err := d.whole(worker == "other worker", sizes...); err != nil {
		t.Fatal(err)
	}
}

// TestRDMADialing covers other cases of clients over RDMA devices: rejected, one of many, or
// without a listener.
func TestRDMADialing(t *testing.T) {
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if over.tls != anyIB && !rdmaLong {
			return
		}
		many := 10
		if rdmaLong {
			many = 50
		}
		for name, run := range map[string]func(d *dialing) error{
			"rejected": (*dialing).rejected,
			"many":     func(d *dialing) error { return d.many(many) },
		} {
			t.Run(name, func(t *testing.T) {
				d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer"}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer d.report(t)
				if err := run(d); err != nil {
					t.Fatal(err)
				}
			})
		}
		t.Run("nobody listens", func(t *testing.T) { nobodyListens(t, where, ours, theirs, weServe, over) })
	})
}

// TestRDMAPlainUser runs the Go side as a user without privileges, with a limit of 8 MiB of locked
// memory. That suffices for a Go worker with all transports, while C pins more for each.
func TestRDMAPlainUser(t *testing.T) {
	onVeth(t)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 8 << 20, Max: was.Max}); err != nil { // for the programs
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &was)
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if !ours.ours {
			return
		}
		plain := *where
		plain.user = 1000
		if !theirs.ours {
			plain.other = where
		}
		m := newMatrix(ours.name + " with " + theirs.name)
		for _, over := range rdmaRoutes(t, anyIB) {
			r := runner{t: t, where: &plain, ours: ours, theirs: theirs, route: over, matrix: m,
				operations: named("send", "put", "get", "am", "stream", "burst")}
			r.run([]int{8, 1 << 18})
		}
		m.print(os.Stdout)
	})
}
