package netlink

import (
	"net/netip"
	"testing"
	"time"
)

// TestRecent: routes are read again only after sixteen times as long as reading took, and then a
// new route is found.
func TestRecent(t *testing.T) {
	var now time.Duration
	took := 3 * time.Millisecond
	reads := 0
	var table Routes
	r := Recent{
		now: func() time.Duration { return now },
		read: func() (Routes, error) {
			reads++
			now += took
			return table, nil
		},
	}
	there := func() bool {
		routes, err := r.Routes()
		if err != nil {
			t.Fatal(err)
		}
		return routes.Match(2, netip.MustParseAddr("10.1.2.3")) >= 0
	}
	if there() || reads != 1 {
		t.Fatalf("a route that is not there, read %d times", reads)
	}
	table.Add(2, netip.MustParsePrefix("10.0.0.0/8"))
	now += 16*took - 1
	if there() || reads != 1 {
		t.Errorf("read %d times before it is time", reads)
	}
	now++
	if !there() || reads != 2 {
		t.Errorf("the new route is not seen, read %d times", reads)
	}
}

// TestRecentZero: the zero value reads the routes of this machine.
func TestRecentZero(t *testing.T) {
	var r Recent
	routes, err := r.Routes()
	if err != nil || !routes.Local(netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%+v, %v", routes, err)
	}
}
