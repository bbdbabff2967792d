//go:build linux

package sockcm

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// crowdOf makes a manager with pending connections from these addresses, in this order.
func crowdOf(t *testing.T, limits Limits, from ...string) (*manager, []*pendingConn) {
	t.Helper()
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(w, Host{Limits: limits}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := c.(*manager)
	t.Cleanup(func() {
		m.Close()
		w.Close()
	})
	l := &listener{m: m, fd: -1}
	anywhere := netip.MustParseAddrPort("0.0.0.0:0")
	if err := l.Init(&m.Manager, anywhere, uct.ListenParams{OnRequest: func(uct.Listener, *uct.ConnRequest) {}}, 1); err != nil {
		t.Fatal(err)
	}
	var list []*pendingConn
	for _, text := range from {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddr(text)
		v := &pendingConn{l: l, Charge: connkit.ChargeTo(at, 1), link: link{fd: fds[0], Route: connkit.Route{Remote: netip.AddrPortFrom(at, 1)}}}
		t.Cleanup(func() {
			unix.Close(fds[1])
			if v.fd >= 0 {
				v.leave()
				v.drop()
			}
		})
		v.wait()
		list = append(list, v)
	}
	return m, list
}

// gone returns the indexes of the pending connections that were closed.
func gone(list []*pendingConn) (places []int) {
	for i, v := range list {
		if v.fd < 0 {
			places = append(places, i)
		}
	}
	return places
}

// TestCrowd checks which connections are closed when there are too many.
func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		what   string
		limits Limits
		from   []string
		want   []int
	}{
		{"all may stay", Limits{Visitors: 4, Few: 1}, []string{"10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"}, nil},
		{"one source has half of it", Limits{Visitors: 4, Few: 1}, []string{"10.0.0.9", "10.0.0.1", "10.0.0.1", "10.0.0.1"}, []int{1}},
		{"the source with the most", Limits{Visitors: 4, Few: 4}, []string{"10.1.0.1", "10.2.0.2", "10.2.0.2", "10.3.0.3", "10.4.0.4"}, []int{1}},
		{"the oldest where all have as many", Limits{Visitors: 4, Few: 4}, []string{"10.1.0.1", "10.2.0.2", "10.3.0.3", "10.4.0.4", "10.5.0.5"}, []int{0}},
		{"a network of many addresses", Limits{Visitors: 6, Few: 2},
			[]string{"10.1.0.1", "10.1.0.1", "10.9.9.1", "10.9.9.2", "10.9.9.3", "10.9.9.4", "10.9.9.5", "10.9.9.6"}, []int{0, 2}},
		{"neighbors that are not most", Limits{Visitors: 10, Few: 2},
			[]string{"10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1", "10.5.0.1", "10.6.0.1", "10.9.9.1", "10.9.9.2", "10.9.9.3", "10.9.9.4", "10.9.9.5"}, []int{0}},
		{"the same of IPv6", Limits{Visitors: 6, Few: 2},
			[]string{"2001:db8:1::1", "2001:db8:7:1::1", "2001:db8:7:2::1", "2001:db8:7:3::1", "2001:db8:7:4::1", "2001:db8:7:5::1", "2001:db8:9::"}, []int{1}},
	} {
		if _, list := crowdOf(t, c.limits, c.from...); !slices.Equal(gone(list), c.want) {
			t.Errorf("%s: %v were sent away, want %v", c.what, gone(list), c.want)
		}
	}
}

// TestFewStay: a source with only a few connections does not lose them when descriptors are short.
func TestFewStay(t *testing.T) {
	m, list := crowdOf(t, Limits{Visitors: 20, Few: 2}, "10.1.0.1", "10.2.0.2", "10.2.0.2")
	if m.evict(2, ledger.Descriptors) || len(gone(list)) > 0 {
		t.Errorf("%v were sent away", gone(list))
	}
	if !m.evict(1, ledger.Descriptors) || !slices.Equal(gone(list), []int{1}) {
		t.Errorf("%v were sent away", gone(list))
	}
}
