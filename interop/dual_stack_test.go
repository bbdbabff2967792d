//go:build linux

package interop

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// Devices with addresses of both families, on two machines. Between the two of IPv4 there is a
// way or not: then connections by the other addresses cannot move there.
const (
	firstHost6, secondHost6 = "fd00:18::1", "fd00:18::2"
	strayHost, strayAddress = "198.19.0.2", "198.19.0.2/24"
)

// newDualPlaces makes two linked places with both families.
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

// TestDualStack connects by socket address of either family, where the devices have both and
// workers name IPv4: C takes part in IPv6 where that is its family.
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

// TestLinkLocal is TestDualStack by addresses of the link alone, which C has none of.
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
