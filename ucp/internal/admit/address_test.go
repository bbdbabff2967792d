package admit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// own and other are processes of this machine: the peer's, and another one.
const own, other uct.Process = 1, 2

// ip returns a destination with an IP address, such as "192.0.2.1:7".
func ip(at string) Destination {
	return Destination{Kind: DestinationIP, At: netip.MustParseAddrPort(at)}
}

// here returns a destination at an address of this machine.
func here(at string) Destination {
	return Destination{Kind: DestinationIP, At: netip.MustParseAddrPort(at), OnThisMachine: true}
}

// pairwise returns a destination to which lanes are connected pairwise.
func pairwise(p Destination) Destination {
	p.Pairwise = true
	return p
}

// world maps the entries of these tests to their destinations.
var world = map[string]place{
	"malformed":      {Destination: Destination{Kind: DestinationMalformed}},
	"process":        {Destination: Destination{Kind: DestinationProcess}, process: own},
	"other process":  {Destination: Destination{Kind: DestinationProcess}, process: other},
	"file":           {Destination: Destination{Kind: DestinationProcess}, process: own, file: true},
	"other file":     {Destination: Destination{Kind: DestinationProcess}, process: other, file: true},
	"fabric":         {Destination: Destination{Kind: DestinationNetwork}},
	"no ip":          {Destination: Destination{Kind: DestinationIP}},
	"ip":             {Destination: ip("192.0.2.1:7")},
	"ip in ipv6":     {Destination: ip("[::ffff:192.0.2.1]:7")},
	"other ip":       {Destination: ip("192.0.2.9:7")},
	"pairwise":       {Destination: pairwise(ip("192.0.2.9:7"))},
	"listener":       {Destination: here("127.0.0.1:7")},
	"other listener": {Destination: here("127.0.0.1:8")},
	"no listener":    {Destination: here("127.0.0.1:0")},
	"inner network":  {Destination: here("192.0.2.1:8")}, // of this machine, and the far peer's elsewhere
	"pairwise here":  {Destination: pairwise(here("127.0.0.1:8"))},
}

// from returns a kernel with a connection from an address.
func from(addr string, local bool) *kernel {
	k := &kernel{places: world, holder: own, listeners: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7"), netip.MustParseAddrPort("127.0.0.1:0")}}
	k.info.Local, k.info.User.Known = local, local
	if addr != "" {
		k.info.Addr = netip.MustParseAddrPort(addr)
	}
	return k
}

// far and near are the addresses that the peers connect from.
const (
	far  = "192.0.2.1:40000"
	near = "127.0.0.1:40000"
)

// TestValidate has a row for each verdict on each kind of entry.
func TestValidate(t *testing.T) {
	list := func(s string) []string { return strings.Split(s, ",") }
	for _, c := range []struct {
		name    string
		k       *kernel
		change  func(v *Validator)
		names   string
		valid   string // the entries that are believed; "" for none
		claimed string // the entries that are only claimed; "-" if all are verified
		lies    bool   // the address contradicts the connection
	}{
		// Processes of this machine.
		{"the peer's process", from(near, true), nil, "process", "process", "-", false},
		{"another process", from(near, true), nil, "other process", "", "", true},
		{"both processes", from(near, true), nil, "other process,process", "process", "", true},
		{"another process, user unknown", from(near, true), func(v *Validator) { v.Host.(*kernel).info.User.Known = false }, "other process", "", "", false},
		{"a process, from elsewhere", from(far, false), nil, "process", "", "-", false},
		{"a file alone", from(near, true), nil, "file", "", "-", false},
		{"a file before the process", from(near, true), nil, "file,process", "file,process", "-", false},
		{"a file after the process", from(near, true), nil, "process,file", "process,file", "-", false},
		{"another file and the process", from(near, true), nil, "other file,process", "process", "-", true},
		{"another file after the process", from(near, true), nil, "process,other file", "process", "", true},
		{"a file and another process", from(near, true), nil, "file,other process", "", "", true},
		{"a process, accepted", from(near, true), func(v *Validator) { v.Accepted = true }, "other process", "", "", true},
		{"a process, unchecked", from(near, true), func(v *Validator) { v.CheckIP = false }, "other process", "", "", true},

		// IP addresses of other machines.
		{"where it is", from(far, false), nil, "ip", "ip", "-", false},
		{"where it is, in IPv6", from(far, false), nil, "ip in ipv6", "ip in ipv6", "-", false},
		{"elsewhere", from(far, false), nil, "other ip", "", "other ip", true},
		{"several devices", from(far, false), nil, "other ip,ip", "ip", "other ip,ip", false},
		{"elsewhere, unchecked", from(far, false), func(v *Validator) { v.CheckIP = false }, "other ip", "other ip", "-", false},
		{"elsewhere, accepted", from(far, false), func(v *Validator) { v.Accepted = true }, "other ip", "other ip", "-", false},
		{"elsewhere, given together", from(far, false), func(v *Validator) {
			v.Host.(*kernel).given = map[string][]*proto.WorkerAddress{"other ip": {address("other ip"), address("fabric,ip", "other ip", "ip")}}
		}, "other ip", "other ip", "-", false},
		{"elsewhere, given alone", from(far, false), func(v *Validator) {
			v.Host.(*kernel).given = map[string][]*proto.WorkerAddress{"other ip": {address("other ip")}}
		}, "other ip", "", "other ip", true},
		{"elsewhere, given with an address of this machine", from(far, false), func(v *Validator) {
			v.Host.(*kernel).given = map[string][]*proto.WorkerAddress{"other ip": {address("other ip", "inner network")}}
		}, "other ip", "", "other ip", true},
		{"pairwise elsewhere", from(far, false), nil, "pairwise", "pairwise", "-", false},
		{"an address without a form", from(far, false), nil, "malformed", "", "-", false},
		{"no interface", from(far, false), nil, "unheard of", "", "-", false},

		// IP addresses of this machine.
		{"here, from elsewhere", from(far, false), nil, "listener", "", "", true},
		{"here, from elsewhere, unchecked", from(far, false), func(v *Validator) { v.CheckIP = false }, "listener", "", "", true},
		{"here, from elsewhere, accepted", from(far, false), func(v *Validator) { v.Accepted = true }, "listener", "", "", true},
		{"here, pairwise, from elsewhere", from(far, false), nil, "pairwise here", "", "", true},
		{"here, given, from elsewhere", from(far, false), func(v *Validator) {
			v.Host.(*kernel).given = map[string][]*proto.WorkerAddress{"listener": {address("listener", "ip")}}
		}, "listener", "", "", true},
		{"at its listener", from(near, true), nil, "listener", "listener", "-", false},
		{"at another user's listener", from(near, true), nil, "other listener", "", "other listener", true},
		{"at another user's listener, accepted", from(near, true), func(v *Validator) { v.Accepted = true }, "other listener", "", "other listener", true},
		{"at another user's listener, unchecked", from(near, true), func(v *Validator) { v.CheckIP = false }, "other listener", "other listener", "-", false},
		{"at no port", from(near, true), nil, "no listener", "", "no listener", true},
		{"at another listener, nobody can tell", from(near, true), func(v *Validator) { v.Conn = dumb{v.Conn} }, "other listener", "other listener", "-", false},
		{"here, pairwise", from(near, true), nil, "pairwise here", "pairwise here", "-", false},

		// Entries without IP addresses.
		{"a fabric", from(far, false), nil, "fabric", "fabric", "-", false},
		{"no IP address", from(far, false), nil, "no ip", "no ip", "-", false},
		{"from no IP address", from("", false), nil, "other ip,listener,malformed", "other ip,listener,malformed", "-", false},
		{"no IP address beside a claim", from(far, false), nil, "fabric,no ip,listener,other ip,process", "fabric,no ip", "no ip,other ip", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.k.validator()
			if c.change != nil {
				c.change(v)
			}
			a := address(list(c.names)...)
			f := v.Validate(a)
			if got := strings.Join(entries(a), ","); got != c.valid {
				t.Errorf("verified are %q, want %q", got, c.valid)
			}
			got := "-"
			if f.Claimed != nil {
				got = strings.Join(entries(f.Claimed), ",")
			}
			if got != c.claimed || f.Contradicts != c.lies {
				t.Errorf("claimed are %q, want %q; contradicts %v", got, c.claimed, f.Contradicts)
			}
		})
	}
}

// TestValidateSafe: whatever an address names, nothing of another process is opened or believed,
// no address is believed at which the peer is not, and the kernel is asked a bounded number of
// times.
func TestValidateSafe(t *testing.T) {
	names := []string{"unheard of"}
	for n := range world {
		names = append(names, n)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		local := rapid.Bool().Draw(t, "local")
		k := from(map[bool]string{true: near, false: far}[local], local)
		k.places = make(map[string]place)
		for n, p := range world {
			k.places[n] = p
		}
		var named []string
		for n := range rapid.IntRange(0, 40).Draw(t, "entries") {
			e := rapid.SampledFrom(names).Draw(t, "entry")
			if rapid.Bool().Draw(t, "another") { // one more entry of the kind
				p, known := world[e]
				e = fmt.Sprint(e, n)
				if p.process == other {
					p.process += uct.Process(n)
				}
				if port := p.At.Port(); port > 7 {
					p.At = netip.AddrPortFrom(p.At.Addr(), port+uint16(n))
				}
				if known {
					k.places[e] = p
				}
			}
			named = append(named, e)
		}
		v := k.validator()
		v.Accepted = rapid.Bool().Draw(t, "accepted")
		a := address(named...)
		f := v.Validate(a)
		for _, p := range k.opened {
			if p != own && !v.heldByProcess {
				t.Fatalf("objects of process %d were opened, and no process was tied to the connection", p)
			}
		}
		if k.held > maxProcesses || k.listens > maxFound || k.finds > maxFound {
			t.Fatalf("the kernel was asked for %d processes, %d listeners, %d entries", k.held, k.listens, k.finds)
		}
		if !local && k.held+k.listens+k.finds > 0 {
			t.Fatal("look-ups for a peer that is elsewhere")
		}
		for _, e := range entries(a) {
			switch p := k.places[e]; p.Kind {
			case DestinationNone, DestinationMalformed:
				t.Errorf("%s is verified", e)
			case DestinationProcess:
				if p.process != own || !local {
					t.Errorf("%s of process %d is verified", e, p.process)
				}
			case DestinationIP:
				there := !p.At.IsValid() || p.At.Addr().Unmap() == k.info.Addr.Addr() || p.Pairwise || v.Accepted
				if p.OnThisMachine {
					there = local && (p.Pairwise || p.At.Port() != 0 && slices.Contains(k.listeners, p.At))
				}
				if !there {
					t.Errorf("%s at %v is verified", e, p.At)
				}
			}
		}
		if f.Claimed == nil {
			return
		}
		for _, e := range entries(f.Claimed) {
			if p := k.places[e]; p.Kind != DestinationIP || p.OnThisMachine && !local {
				t.Errorf("%s is claimed", e)
			}
		}
	})
}

// TestProcessesAsked checks how often the kernel is asked about processes for one address, whatever
// the address names. A process that was not looked up does not count as the peer's.
func TestProcessesAsked(t *testing.T) {
	for others := range 2 * maxFound {
		k := from(near, true)
		k.places = map[string]place{"process": world["process"]}
		var names []string
		for n := range others {
			e := fmt.Sprint("other process ", n)
			k.places[e] = place{Destination: Destination{Kind: DestinationProcess}, process: other + uct.Process(n)}
			names = append(names, e, e)
		}
		a := address(append(names, "process", "process")...)
		k.validator().Validate(a)
		if got, want := a.NumIfaces(), map[bool]int{true: 2}[2*others+2 <= maxFound && others < maxProcesses]; got != want {
			t.Errorf("%d other processes: %d entries are verified, want %d", others, got, want)
		}
		if k.held > maxProcesses || k.finds > maxFound {
			t.Errorf("%d other processes: the kernel was asked for %d processes, %d entries", others, k.held, k.finds)
		}
	}
}

// TestLookedAtAgain checks that an entry is validated a second time only if it does not say which
// process it belongs to, and if another entry has tied a process to the connection.
func TestLookedAtAgain(t *testing.T) {
	for names, want := range map[string]int{
		"file": 1, "other process": 1, "file,other process": 2,
		"file,process": 3, "process,file": 2, "process,other file": 2, "file,other process,process": 4,
	} {
		k := from(near, true)
		k.validator().Validate(address(strings.Split(names, ",")...))
		if k.finds != want {
			t.Errorf("%s: looked at %d entries, want %d", names, k.finds, want)
		}
	}
}

// TestListenersAsked checks how often the kernel is asked which user listens, for one address,
// whatever the address names. A source whose look-ups have taken too long gets no more.
func TestListenersAsked(t *testing.T) {
	k := from(near, true)
	k.places = make(map[string]place)
	k.listeners = nil
	named := func(ports ...int) *proto.WorkerAddress {
		a := new(proto.WorkerAddress)
		for _, p := range ports {
			e := fmt.Sprintf("127.0.0.1:%d", p)
			k.places[e] = place{Destination: here(e)}
			a.Devices = append(a.Devices, address(e).Devices...)
		}
		return a
	}
	rates := k.validator().Rates
	look := func(a *proto.WorkerAddress) (asked, verified, claimed int) {
		before, v := k.listens, k.validator()
		v.Rates = rates
		f := v.Validate(a)
		return k.listens - before, a.NumIfaces(), len(entries(f.Claimed))
	}
	k.listeners = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:10"), netip.MustParseAddrPort("127.0.0.1:11")}
	if asked, verified, claimed := look(named(10, 10, 11, 10)); asked != 2 || verified != 4 || claimed != 0 {
		t.Errorf("two ports: asked %d times, %d of 4 verified, %d claimed", asked, verified, claimed)
	}
	var many []int
	for p := range 100 {
		many = append(many, 1000+p)
		if p >= 50 {
			k.listeners = append(k.listeners, netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", 1000+p)))
		}
	}
	if asked, verified, claimed := look(named(many...)); asked != maxFound || verified != 0 || claimed != 100 {
		t.Errorf("100 ports: asked %d times, %d verified, %d claimed", asked, verified, claimed)
	}
	if _, err := rates.Take(k.Source(), 0); err != nil {
		t.Fatal(err)
	}
	k.takes = LookupBurst
	if asked, verified, _ := look(named(10)); asked != 1 || verified != 1 {
		t.Errorf("asked %d times, %d verified", asked, verified)
	}
	if asked, verified, claimed := look(named(10)); asked != 0 || verified != 0 || claimed != 1 {
		t.Errorf("after a long look-up: asked %d times, %d verified, %d claimed", asked, verified, claimed)
	}
	k.clock += time.Second
	if asked, _, _ := look(named(10)); asked != 1 {
		t.Errorf("a second later: asked %d times", asked)
	}
}

// TestComesFrom: a connection is the peer's if the peer's process holds it or it comes from one of
// the peer's addresses.
func TestComesFrom(t *testing.T) {
	for _, c := range []struct {
		k       *kernel
		process uct.Process
		names   []string
		want    bool
	}{
		{from(near, true), own, nil, true},
		{from(near, true), other, nil, false},
		{from(near, true), 0, nil, false},
		{from(far, false), own, nil, false},
		{from(near, true), other, []string{"fabric", "process", "listener"}, true},
		{from(near, true), other, []string{"other listener", "ip"}, false},
		{from(far, false), 0, []string{"other ip", "ip"}, true},
		{from(far, false), 0, []string{"other ip", "pairwise", "fabric", "no ip", "listener", "malformed"}, false},
	} {
		if got := c.k.validator().ComesFrom(address(c.names...), c.process); got != c.want {
			t.Errorf("from %v, process %d, %q: %v", c.k.info.Addr, c.process, c.names, got)
		}
	}
}
