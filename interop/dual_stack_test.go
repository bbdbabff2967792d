//go:build linux

package interop

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// Devices with addresses of both families, on two machines. With the stray address IPv4 does not
// connect them, so connections by other addresses cannot move to IPv4.
const (
	firstHost6, secondHost6 = "fd00:18::1", "fd00:18::2"
	strayHost, strayAddress = "198.19.0.2", "198.19.0.2/24"
)

// newDualPlaces makes two linked places with both address families.
func newDualPlaces(stray bool) (here, there *place, err error) {
	if here, there, err = newLinkedPlaces(); err != nil {
		return nil, nil, err
	}
	err = errors.Join(here.ip("addr add "+firstHost6+"/64 dev "+firstDevice+" nodad"),
		there.ip("addr add "+secondHost6+"/64 dev "+secondDevice+" nodad"))
	if err == nil && stray {
		err = there.ip("addr del "+secondAddress+" dev "+secondDevice, "addr add "+strayAddress+" dev "+secondDevice)
	}
	if err != nil {
		here.close()
		there.close()
		return nil, nil, err
	}
	here.other = there
	return here, there, nil
}

// TestDualStack connects by socket address of either family between devices that have both, while
// workers publish IPv4. C takes part in IPv6 if it prefers that family.
func TestDualStack(t *testing.T) {
	ours := buildGo(t)
	peers := append([]program{ours}, buildC(t)...)
	for _, stray := range []bool{false, true} {
		here, there, err := newDualPlaces(stray)
		if err != nil {
			needtest.Right(t, "two network namespaces with a cable: "+err.Error())
		}
		defer here.close()
		defer there.close()
		way := "IPv4 reaches"
		v6 := route{name: "IPv6", tls: "tcp", both: true, devices: firstDevice, across: secondDevice, hosts: [2]string{firstHost6, secondHost6}}
		routes := []route{v6}
		if stray {
			way = "IPv4 does not reach"
		} else {
			v4 := v6
			v4.name, v4.hosts = "IPv4", [2]string{firstHost, secondHost}
			routes = append(routes, v4)
		}
		for _, theirs := range peers {
			for _, over := range routes {
				for _, all := range []string{"y", "n"} {
					for name, weServe := range map[string]bool{"we serve": true, "we connect": false} {
						t.Run(way+"/"+theirs.name+"/"+over.name+"/"+all+"/"+name, func(t *testing.T) {
							s := setting{mode: "peer", both: []string{"UCX_CM_USE_ALL_DEVICES=" + all}}
							if !theirs.ours && over.hosts == v6.hosts {
								s.theirs = []string{"UCX_TCP_AF_PRIO=inet6"}
							}
							d, err := startDialing(here, ours, theirs, weServe, s, over)
							if err != nil {
								t.Fatal(err)
							}
							defer d.report(t)
							if err := d.whole(false, 8, 16384, 300<<10); err != nil {
								t.Fatal(err)
							}
						})
					}
				}
			}
		}
	}
}

// TestLinkLocal is TestDualStack with link-local addresses, which C does not support.
func TestLinkLocal(t *testing.T) {
	ours := buildGo(t)
	here, there, err := newDualPlaces(true)
	if err != nil {
		needtest.Right(t, "two network namespaces with a cable: "+err.Error())
	}
	defer here.close()
	defer there.close()
	err = errors.Join(here.ip("addr add fe80::18:1/64 dev "+firstDevice+" nodad"), there.ip("addr add fe80::18:2/64 dev "+secondDevice+" nodad"))
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []string{"y", "n"} {
		t.Run(all, func(t *testing.T) {
			over := route{tls: "tcp", both: true, devices: firstDevice, across: secondDevice, hosts: [2]string{"", "::"}}
			d, err := startDialing(here, ours, ours, false, setting{mode: "peer", both: []string{"UCX_CM_USE_ALL_DEVICES=" + all}}, over)
			if err != nil {
				t.Fatal(err)
			}
			defer d.report(t)
			d.addr = netip.AddrPortFrom(netip.MustParseAddr("fe80::18:2%"+firstDevice), d.addr.Port())
			err = d.connect()
			if err == nil {
				err = d.talk(8, 16384, 300<<10)
			}
			if err == nil {
				err = d.part(d.client, d.server)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSecondFamily connects by worker addresses. The Go device has both families and prefers IPv4;
// the other device lacks IPv4, or IPv6, or has both but no route over IPv4. The Go side connects
// first, or the other side does, which needs an address that lists both families. (C finds the
// endpoint that Go's request has made even without.)
func TestSecondFamily(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	ours := buildGo(t)
	peers := append([]program{ours}, buildC(t)...)
	for _, way := range []struct {
		name   string
		there  []string // changes of the other side's addresses
		second bool     // no connection by the first family
		both   bool     // the other side has both families
	}{
		{"IPv6 only", []string{"addr del " + secondAddress + " dev " + secondDevice}, true, false},
		{"IPv4 only", []string{"addr del " + secondHost6 + "/64 dev " + secondDevice}, false, false},
		{"both, no way by IPv4", []string{"addr del " + secondAddress + " dev " + secondDevice, "addr add " + strayAddress + " dev " + secondDevice}, true, true},
	} {
		here, there, err := newDualPlaces(false)
		if err != nil {
			needtest.Right(t, "two network namespaces with a cable: "+err.Error())
		}
		t.Cleanup(here.close)
		t.Cleanup(there.close)
		if err := there.ip(way.there...); err != nil {
			t.Fatal(err)
		}
		over, back := network(device{way.name, firstDevice}), network(device{way.name, secondDevice})
		for _, theirs := range peers {
			if way.both && !theirs.ours {
				continue // a device of C has one family
			}
			for _, test := range []struct {
				name   string
				weAsk  bool
				listed string
			}{{"we ask", true, "n"}, {"we ask, listed", true, "y"}, {"we are asked, listed", false, "y"}, {"we are asked", false, "n"}} {
				// Without the list, the other side does not know Go's address, and cannot connect.
				known := !way.second || test.listed == "y"
				if !known && (!test.weAsk || way.both) || !way.second && test.listed == "n" {
					continue
				}
				for _, mode := range []string{"none", "peer"} {
					t.Run(way.name+"/"+theirs.name+"/"+test.name+"/"+mode, func(t *testing.T) {
						p, err := startApart(here, there, ours, theirs, setting{mode: mode, both: []string{"UCX_TCP_AF_DUAL=" + test.listed, "UCX_WARN_UNUSED_ENV_VARS=n"}}, over, back)
						if err != nil {
							t.Fatal(err)
						}
						defer p.report(t)
						if test.weAsk {
							p.ours, p.theirs = p.theirs, p.ours
						}
						if err := p.answered(mode, known || !theirs.ours); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	}
}

// TestSecondFamilyLoopback is TestSecondFamily on one lo, where the other side prefers IPv6. C,
// which has one family only, needs an address that lists both to connect to Go.
func TestSecondFamilyLoopback(t *testing.T) {
	where, err := newNamespace()
	if err != nil {
		needtest.Right(t, "a network namespace: "+err.Error())
	}
	t.Cleanup(where.close)
	over := network(device{"lo", "lo"})
	ours := buildGo(t)
	for _, theirs := range append([]program{ours}, buildC(t)...) {
		for _, weAsk := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/we ask %t", theirs.name, weAsk), func(t *testing.T) {
				s := setting{mode: "none", theirs: []string{"UCX_TCP_AF_PRIO=inet6,inet"}}
				if !weAsk && !theirs.ours {
					s.both = []string{"UCX_TCP_AF_DUAL=y", "UCX_WARN_UNUSED_ENV_VARS=n"}
				}
				p, err := startApart(where, where, ours, theirs, s, over, over)
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				if weAsk {
					p.ours, p.theirs = p.theirs, p.ours
				}
				if err := p.answered("none", true); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestSecondaryAddress connects by socket address to and from a second IPv4 address of the Go
// device, which workers do not publish.
func TestSecondaryAddress(t *testing.T) {
	const secondary = "198.18.0.11"
	here, there, err := newLinkedPlaces()
	if err != nil {
		needtest.Right(t, "two network namespaces with a cable: "+err.Error())
	}
	t.Cleanup(here.close)
	t.Cleanup(there.close)
	here.other = there
	err = here.ip("addr add "+secondary+"/24 dev "+firstDevice, "route change 198.18.0.0/24 dev "+firstDevice+" src "+secondary)
	if err != nil {
		t.Fatal(err)
	}
	ours := buildGo(t)
	over := route{tls: "tcp", both: true, devices: firstDevice, across: secondDevice, hosts: [2]string{secondary, secondHost}}
	for _, theirs := range append([]program{ours}, buildC(t)...) {
		for _, all := range []string{"y", "n"} {
			for name, weServe := range map[string]bool{"we serve": true, "we connect": false} {
				t.Run(theirs.name+"/"+all+"/"+name, func(t *testing.T) {
					d, err := startDialing(here, ours, theirs, weServe, setting{mode: "peer", both: []string{"UCX_CM_USE_ALL_DEVICES=" + all}}, over)
					if err != nil {
						t.Fatal(err)
					}
					defer d.report(t)
					if err := d.whole(false, 8, 16384, 300<<10); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}
