package ledger

import (
	"fmt"
	"strings"
	"testing"
)

// TestCrowded: the largest group is a source, a network of many sources with few connections each,
// or all sources.
func TestCrowded(t *testing.T) {
	const few = 8
	for _, c := range []struct {
		name string
		has  map[string]int64 // connections by a pattern, for each address
		many int
		want string
	}{
		{"nobody", map[string]int64{"10.%d.0.1": 8}, 50, ""},
		{"an address", map[string]int64{"10.%d.0.1": 8, "192.0.2.1": 100}, 20, "192.0.2.1"},
		{"a /56 against somebody with more than few", map[string]int64{"2001:db8:0:%x::1": 8, "192.0.2.1": 20}, 256, "2001:db8::/48"},
		{"an address against neighbours", map[string]int64{"10.0.0.%d": 8, "192.0.2.1": 1500}, 200, "192.0.2.1"},
		{"a /32", map[string]int64{"2001:db8:%x::1": 8, "10.0.0.%d": 2}, 200, "2001:db8::/32"},
		{"neighbours that are not most", map[string]int64{"10.0.0.%d": 8, "%d.1.1.1": 8, "%d.2.1.1": 2}, 100, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var open []*Account
			for pattern, n := range c.has {
				seen := map[Source]bool{}
				for i := range c.many {
					s := pattern
					if strings.Contains(pattern, "%") {
						s = fmt.Sprintf(pattern, i+1)
					}
					src := SourceOf(addr(s), -1)
					if seen[src] {
						continue
					}
					seen[src] = true
					a := Open(src)
					a.Add(Conns, n)
					open = append(open, a)
				}
			}
			who := FindLargestGroup(few)
			got := ""
			switch {
			case who.AllSources():
			case who.Net.IsValid():
				got = who.Net.String()
			default:
				got = who.Source.String()
			}
			if got != c.want {
				t.Errorf("the crowd is %q with %d, want %q", got, who.Conns, c.want)
			}
			if !who.AllSources() && !who.IsCurrent() {
				t.Error("it does not stand")
			}
			for _, a := range open {
				a.Add(Conns, -a.Of(Conns))
				a.Close()
			}
			if who.IsCurrent() {
				t.Error("it stands when all have left")
			}
			if len(process.Get().nets) != 0 {
				t.Errorf("%d networks are left", len(process.Get().nets))
			}
		})
	}
	for _, s := range []Source{Shared, {UID: 7}, SourceOf(addr("127.0.0.1"), -1), SourceOf(addr("fe80::1%2"), -1)} {
		if _, ok := s.Nets(); ok {
			t.Errorf("%v has networks", s)
		}
	}
}

// TestManyAlike: if many sources have similar numbers of connections, one search suffices for many
// closed connections, and no source loses more than its excess.
func TestManyAlike(t *testing.T) {
	const few, sources = 8, 2 * maxSimilar
	accounts := make(map[Source]*Account)
	for i := range sources {
		a := Open(SourceOf(addr(fmt.Sprintf("10.%d.0.1", i+1)), -1))
		a.Add(Conns, few+1)
		accounts[a.Source()] = a
	}
	looks := 0
	for range sources {
		who := FindLargestGroup(few)
		if who.AllSources() {
			break
		}
		looks++
		for who.IsCurrent() {
			a := accounts[who.Source]
			if a.Add(Conns, -1); a.Of(Conns) < few {
				t.Fatalf("%v has %d", a.Source(), a.Of(Conns))
			}
		}
	}
	if left := Total(Conns); left != few*sources || looks > 2 {
		t.Errorf("%d connections after %d looks", left, looks)
	}
	who := FindLargestGroup(few)
	if !who.AllSources() || who.IsCurrent() {
		t.Errorf("the crowd is %v", who)
	}
	for _, a := range accounts {
		a.Add(Conns, -few)
		a.Close()
	}
}

// TestEqualGroups: of several that have as many connections always the same is found, and the same
// ones are found besides.
func TestEqualGroups(t *testing.T) {
	const few, sources = 8, 2 * maxSimilar
	var accounts []*Account
	open := func(from string, n int64) {
		a := Open(SourceOf(addr(from), -1))
		a.Add(Conns, n)
		accounts = append(accounts, a)
	}
	end := func() {
		for _, a := range accounts {
			a.Add(Conns, -a.Of(Conns))
			a.Close()
		}
		accounts = nil
	}
	for i := range sources {
		open(fmt.Sprintf("10.%d.0.1", i+1), few+1)
	}
	for range 20 { // accounts are in no order
		who := FindLargestGroup(few)
		for i := range maxSimilar {
			if want := accounts[i].source; who.Source != want {
				t.Fatalf("found %v, want %v", who.Source, want)
			}
			accounts[i].Add(Conns, -1)
			if !who.IsCurrent() {
				t.Fatalf("out of date when %d have fewer", i+1)
			}
		}
		for _, a := range accounts[:maxSimilar] {
			a.Add(Conns, 1)
		}
	}
	end()
	// Two networks of which each has half of all connections. The wider networks have the same
	// weight where a weight is not divided.
	for i := range 10 {
		open(fmt.Sprintf("10.2.0.%d", i+1), 1)
		open(fmt.Sprintf("10.1.0.%d", i+1), 1)
	}
	for range 20 {
		if who := FindLargestGroup(1); who.Net.String() != "10.1.0.0/24" {
			t.Fatalf("found %v", who.Net)
		}
	}
	end()
}
