//go:build linux

package interop

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// railWay is which devices each side uses.
type railWay struct {
	name, ours, theirs string
	short              bool
}

// railWays: both have both, which lead to each other crosswise and to themselves, or one of
// them has one only.
var railWays = []railWay{
	{"two to two", "rxe0:1,rxe1:1", "rxe0:1,rxe1:1", true},
	{"two to one", "rxe0:1,rxe1:1", "rxe1:1", false},
	{"one to two", "rxe0:1", "rxe0:1,rxe1:1", false},
}

// railRoutes are those over two devices: C's default is two rails.
func railRoutes(w railWay) (list []route) {
	for _, tls := range []string{"rc", "rc,tcp"} {
		r := route{name: tls, tls: tls, both: true, devices: w.ours, across: w.theirs, rdma: true, more: []string{unhurried}}
		if strings.Contains(tls, "tcp") {
			r.devices, r.across = r.devices+",lo", r.across+",lo"
		}
		list = append(list, r)
	}
	return list
}

// TestRDMARails: both sides have two devices, and lanes over both of them. The lanes are
// connected pairwise, so both have to choose the same. What is long goes over both, by either
// scheme, whoever sends.
func TestRDMARails(t *testing.T) {
	onVeth(t)
	schemes := []setting{
		{name: "defaults"},
		{name: "error mode peer", mode: "peer"},
		{name: "rndv put", both: []string{"UCX_RNDV_THRESH=64k", "UCX_RNDV_SCHEME=put_zcopy"}},
		{name: "rndv get", both: []string{"UCX_RNDV_THRESH=64k", "UCX_RNDV_SCHEME=get_zcopy"}},
		{name: "eager rails", both: []string{"UCX_MAX_EAGER_RAILS=2", "UCX_RNDV_THRESH=inf"}},
	}
	sizes := []int{8, 1<<20 + 3}
	list := []string{"send", "recv iov", "put", "get", "am", "stream"}
	if rdmaLong {
		sizes = []int{8, 1 << 16, 1<<20 + 3}
		list = append(list, "iov sync", "burst", "exchange", "puts and gets", "fence", "am answer", "am kept rndv")
	}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		m := newMatrix(ours.name + " with " + theirs.name)
		for _, way := range railWays {
			if !way.short && !rdmaLong {
				continue
			}
			for _, over := range railRoutes(way) {
				for _, s := range schemes {
					if s.name == "defaults" || over.tls == "rc" && (s.name == "error mode peer" || s.name == "eager rails") || rdmaLong {
						t.Run(way.name+"/"+over.name+"/"+s.name, func(t *testing.T) {
							over := over
							over.name += " " + way.name
							r := runner{t: t, where: where, ours: ours, theirs: theirs, route: over, matrix: m, setting: s, operations: named(list...)}
							r.run(sizes)
							if ours.ours && way.name == "two to two" {
								if err := bothRails(where, ours, theirs, s, over); err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
			}
		}
		m.print(os.Stdout)
	})
}

// bothRails checks that our lanes are over both devices, and that what is long goes over both.
func bothRails(where *place, ours, theirs program, s setting, over route) error {
	p, err := newPair(where, ours, theirs, s, over)
	if err != nil {
		return err
	}
	err = p.overBoth(s.name == "eager rails")
	if err == nil {
		err = p.close(s.errorMode())
	}
	if err != nil {
		err = errors.Join(err, p.abort())
	}
	return err
}

// overBoth is that of a pair.
func (p *pair) overBoth(eager bool) error {
	lanes, err := p.ours.command("transports", ep)
	if err != nil {
		return err
	}
	devices := []string{"rxe0", "rxe1"}
	for _, d := range devices {
		if !slices.ContainsFunc(lanes, func(l string) bool { return strings.HasPrefix(l, "rc_verbs/"+d) }) {
			return errors.New("no lane over " + d + ": " + strings.Join(lanes, " "))
		}
	}
	send := expected("contig", "contig", "sync")
	for _, weSend := range []bool{true, false} {
		from, to := p.ours, p.theirs
		if !weSend {
			from, to = to, from
		}
		before, err := receivedAll(devices)
		if err != nil {
			return err
		}
		const size = 1 << 20
		if err := send(from, to, &p.msgs, size); err != nil {
			return err
		}
		after, err := receivedAll(devices)
		if err != nil {
			return err
		}
		for k, d := range devices {
			// A packet is of 4096 bytes at most, and 1024 with the usual MTU of Ethernet.
			if n := after[k] - before[k]; n < size/4096/3 && (weSend || !eager) {
				return errors.New("next to nothing went over " + d)
			}
		}
	}
	return nil
}

// receivedAll is received of several devices.
func receivedAll(devices []string) (list []int, err error) {
	for _, d := range devices {
		n, err := received(d)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}
