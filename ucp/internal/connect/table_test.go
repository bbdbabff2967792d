package connect

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
)

// documented returns the table in the form in which the package comment shows it.
func documented(t rules) string {
	rows := [][]string{{"role", "stage", "event", "if", "next", "duties"}}
	for k := range t {
		rows = append(rows, t[k].cells())
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for k, cell := range r {
			width[k] = max(width[k], len(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString("//\t")
		for k, cell := range r {
			if k == len(r)-1 {
				b.WriteString(cell)
				break
			}
			b.WriteString(cell + strings.Repeat(" ", width[k]-len(cell)+2))
		}
		text := strings.TrimRight(b.String(), " ")
		b.Reset()
		b.WriteString(text + "\n")
	}
	return b.String()
}

// TestDocumentedTable: the package comment contains the table.
func TestDocumentedTable(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := documented(table)
	_, from, _ := strings.Cut(string(text), "//\trole ")
	got, _, _ := strings.Cut("//\trole "+from, "//\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-table +comment):\n%s", diff)
	}
}

// TestNames: every value has a name of its own.
func TestNames(t *testing.T) {
	for what, list := range map[string]struct {
		names []string
		count int
	}{
		"roles":  {roleNames[:], int(numRoles)},
		"stages": {stageNames[:], int(numStages)},
		"events": {eventNames[:], int(numEvents)},
	} {
		if len(list.names) != list.count {
			t.Errorf("%d names of %d %s", len(list.names), list.count, what)
		}
		seen := make(map[string]bool)
		for _, n := range list.names {
			if n == "" || seen[n] {
				t.Errorf("%s: two have the name %q", what, n)
			}
			seen[n] = true
		}
	}
	for text, want := range map[string]string{
		Role(numRoles).String():                "?",
		Stage(numStages).String():              "?",
		Event(numEvents).String():              "?",
		Client.String():                        "client",
		Both.String():                          "both",
		ReplyReconfig.String():                 "RECONFIG",
		(HasLanes | overdue).String():          "lanes, overdue",
		(Drop | FailUnacknowledged).String():   "drop, fail: ACK",
		(&table[len(table)-1]).String():        "all, all: a message -> same: drop",
		(&rule{to: Idle, need: Dead}).String(): ", :  if dead -> idle",
	} {
		if text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestUnexpected: an event that no rule is for changes nothing.
func TestUnexpected(t *testing.T) {
	for r := Peer; r < numRoles; r++ {
		for s := Idle; s < numStages; s++ {
			for ev := Need; ev < numEvents; ev++ {
				e := End{Role: r, Stage: s}
				next, do := e.Next(ev, HasLanes)
				if message := messages&(1<<ev) != 0; do == 0 && next == e && message {
					t.Errorf("%v in stage %v: %v is neither handled nor dropped", r, s, ev)
				}
				if got, want := do.Err() != nil, do&(FailDevices|FailUnacknowledged) != 0; got != want {
					t.Errorf("%v in stage %v: %v: fails without a reason, or has one and does not fail", r, s, ev)
				}
				if s == Failed && (next != e || do&^(Drop|SendRemoved) != 0) {
					t.Errorf("%v: %v is handled after a failure: %v", r, ev, do)
				}
			}
		}
	}
}

// TestReasons: the errors that endpoints fail with.
func TestReasons(t *testing.T) {
	for do, want := range map[Duty]error{
		Drop | FailDevices: ucs.ErrUnsupported, SendRemoved | FailUnacknowledged: ucs.ErrEndpointTimeout, Drop | SendRemoved: nil,
	} {
		if err := do.Err(); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", do, err, want)
		}
	}
}

// TestUnanswered: a request is unanswered as long as a reply is accepted.
func TestUnanswered(t *testing.T) {
	for s := Idle; s < numStages; s++ {
		e := End{Stage: s}
		if _, do := e.Next(Reply, HasLanes); e.Unanswered() != (do&Drop == 0) {
			t.Errorf("stage %v: %v, a reply: %v", s, e.Unanswered(), do)
		}
	}
}

// TestEndSize: every endpoint has an End.
func TestEndSize(t *testing.T) {
	if n := unsafe.Sizeof(End{}); n > 5 {
		t.Errorf("%d bytes, at most 5 fit the gap in an endpoint", n)
	}
}

// TestCounters: a request is sent three times at most, and ACK may take three rounds of the keepalive.
func TestCounters(t *testing.T) {
	sent := func(before int) (n int) {
		var e End
		var do Duty
		count := func(ev Event) {
			e, do = e.Next(ev, 0)
			if do&SendRequest != 0 {
				n++
			}
			if do&SendAgain != 0 {
				n++
			}
		}
		for range before {
			count(Repeat)
		}
		count(Need)
		for range 5 {
			count(Repeat)
		}
		return n
	}
	for before := range 4 {
		if n := sent(before); n != 3 {
			t.Errorf("repeated %d times before it is sent: %d requests", before, n)
		}
	}
	e, rounds := End{Stage: Replied}, 0
	for {
		next, do := e.Next(Tick, HasLanes|AuxClosed)
		if do&SkipCheck == 0 {
			if next.Stage != Failed || do.Err() == nil {
				t.Errorf("after %d rounds: %v, %v", rounds, next.Stage, do)
			}
			break
		}
		e, rounds = next, rounds+1
	}
	if rounds != 3 {
		t.Errorf("%d rounds", rounds)
	}
	if again, _ := e.Next(AuxLost, HasLanes); again.Rounds != 0 {
		t.Error("the rounds before the loss of the auxiliary lane count")
	}
}
