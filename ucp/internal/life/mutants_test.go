package life

import (
	"fmt"
	"slices"
	"testing"
)

// survivors are changes of the table that no exploration can tell from it, with the reason.
var survivors = map[string]string{
	"line 27 (serving: named if closed, asked if not deaf -> resigning, peer here: tell released) without the need of closed": "an end that was made for a peer knows its id from the beginning",
}

// TestMutants changes the table in every line: leaves the line out, leaves out one duty of it,
// leaves out what it needs or excludes. The explorer finds fault with each.
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
				list[0], list[k] = list[k], list[0] // it may notice the next one, too
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
		for f := managed; f <= patient; f <<= 1 {
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
