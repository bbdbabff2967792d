package connect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// TestMutants changes the table in every line: leaves the line out, leaves out one duty of it,
// leaves out what it needs or excludes, or its effect on a counter. The explorer finds fault with
// each.
func TestMutants(t *testing.T) {
	if !needtest.Full {
		t.Skip("explores the scenarios once for each line of the table, which takes minutes: FULL_TESTS=1")
	}
	list := scenarios()
	caught := 0
	try := func(name string, m rules) {
		for _, limit := range []int{500, 5000, everything} { // most are noticed soon by the right scenario
			for k, s := range list {
				if _, f := explore(s, m, limit); f != nil {
					caught++
					copy(list[1:k+1], list[:k]) // it may notice the next one, too
					list[0] = s
					return
				}
			}
		}
		t.Errorf("nothing notices: %s", name)
	}
	for k := range table {
		r := &table[k]
		name := fmt.Sprintf("line %d (%s)", k, r)
		try(name+" left out", slices.Delete(slices.Clone(table), k, k+1))
		change := func(what string, fn func(*rule)) {
			m := slices.Clone(table)
			fn(&m[k])
			try(name+" without "+what, m)
		}
		for d := Drop; d <= FailUnacknowledged; d <<= 1 {
			if r.do&d != 0 {
				change(d.String(), func(r *rule) { r.do &^= d })
			}
		}
		for f := HasLanes; f <= overdue; f <<= 1 {
			if r.need&f != 0 {
				change("the need of "+f.String(), func(r *rule) { r.need &^= f })
			}
			if r.not&f != 0 {
				change("the exclusion of "+f.String(), func(r *rule) { r.not &^= f })
			}
		}
		if r.count != 0 {
			change("its effect on a counter", func(r *rule) { r.count = 0 })
		}
		if r.from != anyStage && r.from != notFailed {
			for s := Idle; s < numStages; s++ {
				if r.from&(1<<s) != 0 && r.from != 1<<s {
					change("stage "+s.String(), func(r *rule) { r.from &^= 1 << s })
				}
			}
		}
		if r.on != messages {
			for ev := Need; ev < numEvents; ev++ {
				if r.on&(1<<ev) != 0 && r.on != 1<<ev {
					change("event "+ev.String(), func(r *rule) { r.on &^= 1 << ev })
				}
			}
		}
	}
	t.Logf("%d mutants are noticed", caught)
}
