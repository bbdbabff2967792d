package life

import (
	"fmt"
	"testing"
)

// scenarios returns all scenarios to explore: each kind of operation of both sides, each way to be
// connected, and each act of the applications, two or three of them together.
func scenarios() (list []*scenario) {
	kinds := [][2]opKind{{none, none}, {eager, none}, {offer, none}, {put, none}, {offer, offer}, {offer, put}, {put, put}}
	both := func(a, b acts) [2]acts { return [2]acts{a | actMatch, b | actMatch} }
	endings := map[string][2]acts{
		"a closes":                       both(actClose, 0),
		"both close":                     both(actClose|actClaim, actClose|actClaim),
		"a closes and gives up":          both(actClose|actGiveUp, actClose|actClaim),
		"a closes, b by force":           both(actClose, actForce|actClaim),
		"a closes, b evicts":             both(actClose, actEvict),
		"a closes, b dies":               both(actClose, actDie|actClaim),
		"a by force":                     both(actForce, actClose|actClaim),
		"a dies":                         both(actDie, actClose|actClaim),
		"workers shut down":              both(actLeave|actGiveUp, actLeave|actClaim),
		"a closes and shuts down":        both(actClose|actLeave|actGiveUp, actClose|actClaim),
		"a closes, b shuts down":         both(actClose, actLeave|actClaim),
		"a closes, then by force":        both(actClose|actForce, actClose|actClaim),
		"a shuts down, b closes, claims": both(actLeave, actClose|actClaim),
	}
	for _, c := range []scenario{
		{name: "workers, loud"}, {name: "workers, silent", silent: true},
		{name: "manager", managed: true}, {name: "manager, silent lanes", managed: true, silent: true},
		{name: "manager, deaf", managed: true, deaf: true},
		{name: "deaf", deaf: true}, {name: "deaf, silent", deaf: true, silent: true},
	} {
		for _, k := range kinds {
			if c.managed && c.deaf && (k[0] == put || k[1] == put) {
				continue // ends in the same way as offer
			}
			for how, acts := range endings {
				s := c
				s.kinds, s.acts = k, acts
				s.name = fmt.Sprintf("%s, operations %d and %d, %s", c.name, k[0], k[1], how)
				list = append(list, &s)
			}
		}
	}
	return list
}

// TestAllOrders explores all orders of all events in all scenarios and checks that none violates a
// rule.
func TestAllOrders(t *testing.T) {
	worlds := 0
	flaws := 0
	for _, s := range scenarios() {
		n, f := explore(s, table)
		worlds += n
		if f != nil {
			t.Errorf("%s: %v", s.name, f)
			if flaws++; flaws == 5 {
				break
			}
		}
	}
	t.Logf("%d worlds", worlds)
}
