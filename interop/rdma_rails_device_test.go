//go:build linux

package interop

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// railWay is the devices of each side.
type railWay struct {
	name, ours, theirs string
	short              bool
}

// railWays: both sides have both devices, which reach each other and themselves, or one side has
// only one.
var railWays = []railWay{
	{"two to two", "rxe0:1,rxe1:1", "rxe0:1,rxe1:1", true},
	{"two to one", "rxe0:1,rxe1:1", "rxe1:1", false},
	{"one to two", "rxe0:1", "rxe0:1,rxe1:1", false},
}

// railRoutes returns routes over these devices. C's default is two rails of reliable connections.
func railRoutes(w railWay, transports ...string) (list []route) {
	for _, tls := range transports {
		r := route{name: tls, tls: tls, both: true, devices: w.ours, across: w.theirs, rdma: true, more: []string{unhurried}}
		if strings.Contains(tls, "tcp") {
			r.devices, r.across = r.devices+",lo", r.across+",lo"
		}
		list = append(list, r)
	}
	return list
}

// TestRDMARails: both sides have two devices, and lanes over both. The lanes are connected
// pairwise, so both sides must choose the same ones. Long messages use both devices, with either
// scheme and in both directions.
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
			transports := []string{"rc", "rc,tcp"}
			if rdmaLong {
				transports = append(transports, "ud", "ib")
			}
			for _, over := range railRoutes(way, transports...) {
				for _, s := range schemes {
					if s.name == "defaults" || over.tls == "rc" && s.name == "eager rails" || rdmaLong {
						t.Run(way.name+"/"+over.name+"/"+s.name, func(t *testing.T) {
							over := over
							over.name += " " + way.name
							r := runner{t: t, where: where, ours: ours, theirs: theirs, route: over, matrix: m, setting: s, operations: named(list...), half: sparse}
							r.run(sizes)
							if ours.ours && over.tls != "ud" && way.name == "two to two" {
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

// TestRDMAOneSidedRails is TestOneSidedRails over RDMA devices: first only the other side makes an
// endpoint, so the Go side answers a request whose sender has two devices, or does not know one of
// Go's. Then the Go side makes one, too.
func TestRDMAOneSidedRails(t *testing.T) {
	onVeth(t)
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		ways, transports, modes := railWays, []string{"rc", "rc,tcp", "ud", "ib", "ib,tcp"}, []string{"none", "peer"}
		switch {
		case rdmaLong:
		case theirs.ours:
			return
		default:
			ways, transports, modes = ways[:1], []string{"ud", "ib"}, modes[1:]
		}
		for _, way := range ways {
			for _, over := range railRoutes(way, transports...) {
				for _, mode := range modes {
					t.Run(way.name+"/"+over.name+"/"+mode, func(t *testing.T) {
						p, err := startApart(where, where, ours, theirs, setting{mode: mode}, over, over)
						if err != nil {
							t.Fatal(err)
						}
						defer p.report(t)
						p.slow = true
						if err := p.answered(mode, true); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	})
}

// bothRails checks that the lanes of the Go side, and long messages, use both devices.
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

// overBoth does that for a pair.
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
			// A packet has at most 4096 bytes, or 1024 with the usual MTU of Ethernet.
			if n := after[k] - before[k]; n < size/4096/3 && (weSend || !eager) {
				return errors.New("next to nothing went over " + d)
			}
		}
	}
	return nil
}

// receivedAll calls received for several devices.
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
