package life

import (
	"fmt"
	"slices"
	"testing"
)

// survivors are changes of the table that no exploration detects, with the reason.
var survivors = map[string]string{
	"line 29 (serving: named if closed, asked if not deaf -> resigning, peer here: tell released) without the need of closed": "an end that was made for a peer knows its id from the beginning",
}

// TestMutants checks that the explorer detects each change of the table: a line left out, a line
// without one of its duties, or without one of the facts that it needs or excludes.
func TestMutants(t *testing.T) {
	list := scenarios()
	caught := 0
	try := func(name string, m rules) {
		for k, s := range list {
			if _, f := explore(s, m); f != nil {
				caught++
				if why := survivors[name]; why != "" {
					t.Errorf("%s is noticed now: %v", name, f)
				}
				list[0], list[k] = list[k], list[0] // this scenario may detect the next change, too
				return
			}
		}
		if survivors[name] == "" {
			t.Errorf("nothing notices: %s", name)
		}
	}
	for k, r := range table {
		name := fmt.Sprintf("line %d (%s)", k, r)
		try(name+" left out", slices.Delete(slices.Clone(table), k, k+1))
		change := func(what string, fn func(*rule)) {
			m := slices.Clone(table)
			fn(&m[k])
			try(name+" without "+what, m)
		}
		for d := Duty(1); d <= Release; d <<= 1 {
			if r.do&d != 0 {
				change(d.String(), func(r *rule) { r.do &^= d })
			}
		}
		for f := managed; f <= peerFirst; f <<= 1 {
			if r.need&f != 0 {
				change("the need of "+f.String(), func(r *rule) { r.need &^= f })
			}
			if r.not&f != 0 {
				change("the exclusion of "+f.String(), func(r *rule) { r.not &^= f })
			}
		}
	}
	t.Logf("%d mutants are noticed", caught)
}
