package ledger

import (
	"fmt"
	"strings"
	"testing"
)

// TestCrowded: who has most is a source, a network in which many have few, or nobody.
func TestCrowded(t *testing.T) {
	const few = 8
	for _, c := range []struct {
		name string
		has  map[string]int64 // by a pattern of addresses, one for each of so many
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
			who := Crowded(few)
			got := ""
			switch {
			case who.Everybody():
			case who.Net.IsValid():
				got = who.Net.String()
			default:
				got = who.Source.String()
			}
			if got != c.want {
				t.Errorf("the crowd is %q with %d, want %q", got, who.Conns, c.want)
			}
			if !who.Everybody() && !who.Stands() {
				t.Error("it does not stand")
			}
			for _, a := range open {
				a.Add(Conns, -a.Of(Conns))
				a.Close()
			}
			if who.Stands() {
				t.Error("it stands when all have left")
			}
			if len(book.nets) != 0 {
				t.Errorf("%d networks are left", len(book.nets))
			}
		})
	}
	for _, s := range []Source{Shared, {UID: 7}, SourceOf(addr("127.0.0.1"), -1), SourceOf(addr("fe80::1%2"), -1)} {
		if _, ok := s.Nets(); ok {
			t.Errorf("%v has networks", s)
		}
	}
}

// TestManyAlike: who has most is not looked for again for each connection that a source
// loses, where many have about as many, and no source loses more than it has too many.
func TestManyAlike(t *testing.T) {
	const few, sources = 8, 2 * mostAlike
	accounts := make(map[Source]*Account)
	for i := range sources {
		a := Open(SourceOf(addr(fmt.Sprintf("10.%d.0.1", i+1)), -1))
		a.Add(Conns, few+1)
		accounts[a.Source()] = a
	}
	looks := 0
	for range sources {
		who := Crowded(few)
		if who.Everybody() {
			break
		}
		looks++
		for who.Stands() {
			a := accounts[who.Source]
			if a.Add(Conns, -1); a.Of(Conns) < few {
				t.Fatalf("%v has %d", a.Source(), a.Of(Conns))
			}
		}
	}
	if left := Total(Conns); left != few*sources || looks > 2 {
		t.Errorf("%d connections after %d looks", left, looks)
	}
	who := Crowded(few)
	if !who.Everybody() || who.Stands() {
		t.Errorf("the crowd is %v", who)
	}
	for _, a := range accounts {
		a.Add(Conns, -few)
		a.Close()
	}
}
