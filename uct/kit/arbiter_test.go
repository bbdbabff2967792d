package kit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// shared is an iface: all its endpoints share the credits.
type shared struct {
	arb     Arbiter
	credits int
}

// sender is an endpoint with room of its own.
type sender struct {
	q      Queue
	i      *shared
	id     int
	room   int
	failed bool
	onRoom func()
}

func (s *sender) Room() Room {
	if s.onRoom != nil {
		s.onRoom()
	}
	switch {
	case s.failed || s.room == 0:
		return Full
	case s.i.credits == 0:
		return Exhausted
	}
	return Open
}

// request is a pending request that sends a number of messages.
type request struct {
	uct.Pending
	from *sender
	n    int
	left int
	log  *[]*request
	on   func()
}

func (r *request) Dispatch(*uct.Pending) error {
	if r.q().Blocks() {
		panic("refused in its own dispatch")
	}
	if r.from.room == 0 || r.from.i.credits == 0 {
		return ucs.ErrNoResource
	}
	*r.log = append(*r.log, r)
	r.from.room--
	r.from.i.credits--
	if r.on != nil {
		r.on()
	}
	if r.left--; r.left > 0 {
		return ucs.InProgress
	}
	return nil
}

func (r *request) q() *Queue { return &r.from.q }

func (s *sender) add(n, messages int, log *[]*request) *request {
	r := &request{from: s, n: n, left: messages, log: log}
	r.Owner = r
	s.i.arb.Add(&s.q, s, &r.Pending)
	return r
}

// TestArbiterModel checks an iface with random resources: the requests of an endpoint are
// dispatched in order, each as often as it needs; no request is left that could be dispatched; no
// endpoint that could send is skipped while another one sends twice.
func TestArbiterModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := new(shared)
		var log []*request
		senders := make([]*sender, rapid.IntRange(1, 4).Draw(t, "endpoints"))
		waiting := make([][]*request, len(senders)) // model: the waiting requests, in order
		left := make(map[*request]int)              // and the messages that each has left
		for k := range senders {
			senders[k] = &sender{i: i, id: k}
		}
		pick := rapid.IntRange(0, len(senders)-1)
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				s := senders[pick.Draw(t, "endpoint")]
				next++
				r := s.add(next, rapid.IntRange(1, 3).Draw(t, "messages"), &log)
				left[r] = r.left
				waiting[s.id] = append(waiting[s.id], r)
			},
			"purge": func(t *rapid.T) {
				s := senders[pick.Draw(t, "endpoint")]
				var got []*request
				i.arb.Purge(&s.q, func(p *uct.Pending) { got = append(got, p.Owner.(*request)) })
				if !slices.Equal(got, waiting[s.id]) {
					t.Fatalf("purged %d requests, %d waited", len(got), len(waiting[s.id]))
				}
				waiting[s.id] = nil
			},
			"dispatch": func(t *rapid.T) {
				i.credits = rapid.IntRange(0, 6).Draw(t, "credits")
				for _, s := range senders {
					s.room = rapid.IntRange(0, 4).Draw(t, "room")
				}
				could := make([]bool, len(senders)) // at the start of the round
				for _, s := range senders {
					could[s.id] = len(waiting[s.id]) > 0 && s.room > 0
				}
				credits := i.credits
				log = nil
				n := i.arb.Dispatch()
				if n != len(log) || n != credits-i.credits {
					t.Fatalf("%d attempts told, %d made, %d credits used", n, len(log), credits-i.credits)
				}
				turns := make([]int, len(senders))
				for _, r := range log {
					s := r.from
					if waiting[s.id][0] != r {
						t.Fatalf("request %d of endpoint %d went before %d", r.n, s.id, waiting[s.id][0].n)
					}
					if left[r]--; left[r] == 0 {
						waiting[s.id] = waiting[s.id][1:]
					}
					turns[s.id]++
				}
				for _, s := range senders {
					if len(waiting[s.id]) > 0 && s.room > 0 && i.credits > 0 {
						t.Fatalf("endpoint %d could go on", s.id)
					}
					for o := range senders {
						// An endpoint with requests and room until the end has sent as often as the
						// others, give or take one.
						if could[s.id] && len(waiting[s.id]) > 0 && s.room > 0 && turns[o] > turns[s.id]+1 {
							t.Fatalf("endpoint %d went %d times, %d only %d times", o, turns[o], s.id, turns[s.id])
						}
					}
				}
			},
			"": func(t *rapid.T) {
				some := false
				for _, s := range senders {
					if s.q.Empty() != (len(waiting[s.id]) == 0) || s.q.Blocks() == s.q.Empty() {
						t.Fatalf("endpoint %d: empty %v, %d wait", s.id, s.q.Empty(), len(waiting[s.id]))
					}
					some = some || !s.q.Empty()
				}
				if i.arb.Empty() == some || i.arb.Running() {
					t.Fatalf("empty %v, running %v", i.arb.Empty(), i.arb.Running())
				}
			},
		})
	})
}

// TestTurnIsKept: with one credit a round, endpoints alternate, however many requests each has.
func TestTurnIsKept(t *testing.T) {
	i := new(shared)
	var log []*request
	var senders []*sender
	for id := range 3 {
		s := &sender{i: i, id: id, room: 100}
		s.add(id, 1000, &log) // never completes
		senders = append(senders, s)
	}
	for round := range 9 {
		i.credits = 1
		i.arb.Dispatch()
		if len(log) != round+1 || log[round].from.id != round%3 {
			t.Fatalf("round %d: %d turns, the last of endpoint %d", round, len(log), log[len(log)-1].from.id)
		}
	}
	// An endpoint without room is skipped, and has its turn again once it has room.
	senders[0].room = 0
	for range 2 {
		i.credits = 1
		i.arb.Dispatch()
	}
	senders[0].room = 100
	for range 3 {
		i.credits = 1
		i.arb.Dispatch()
	}
	var ids []int
	for _, r := range log[9:] {
		ids = append(ids, r.from.id)
	}
	if !slices.Equal(ids, []int{1, 2, 1, 2, 0}) {
		t.Errorf("turns of %v", ids)
	}
}

// greedy needs two credits and stays first until there are two.
type greedy struct {
	uct.Pending
	i    *shared
	done bool
}

func (g *greedy) Dispatch(*uct.Pending) error {
	if g.i.credits < 2 {
		g.i.credits = 0 // one credit is not enough
		return ucs.ErrNoResource
	}
	g.i.credits -= 2
	g.done = true
	return nil
}

func TestTurnIsKeptWhileExhausted(t *testing.T) {
	i := new(shared)
	var log []*request
	a, b := &sender{i: i, room: 9}, &sender{i: i, id: 1, room: 9}
	g := &greedy{i: i}
	g.Owner = g
	i.arb.Add(&a.q, a, &g.Pending)
	b.add(1, 1, &log)
	i.credits = 1
	if n := i.arb.Dispatch(); n != 0 || len(log) != 0 {
		t.Fatalf("%d attempts, %d of the other endpoint", n, len(log))
	}
	i.credits = 2
	i.arb.Dispatch()
	if !g.done || len(log) != 0 {
		t.Errorf("done %v, %d of the other endpoint", g.done, len(log))
	}
	i.credits = 1
	if n := i.arb.Dispatch(); n != 1 || !i.arb.Empty() {
		t.Errorf("%d attempts, empty %v", n, i.arb.Empty())
	}
}

// TestChangedWhileDispatching: callbacks add requests, purge, leave and fail, for their own
// endpoint and for others.
func TestChangedWhileDispatching(t *testing.T) {
	i := &shared{credits: 100}
	var log []*request
	a, b, c := &sender{i: i, room: 9}, &sender{i: i, id: 1, room: 9}, &sender{i: i, id: 2, room: 9}
	purged := 0
	purge := func(s *sender) { i.arb.Purge(&s.q, func(*uct.Pending) { purged++ }) }

	first := a.add(1, 2, &log)
	a.add(2, 1, &log)
	b.add(3, 1, &log)
	first.on = func() {
		if n := i.arb.Dispatch(); n != 0 || !i.arb.Running() {
			t.Errorf("dispatched again inside a dispatch: %d", n)
		}
		if !b.q.Blocks() || a.q.Blocks() {
			t.Error("a dispatch opens another endpoint, or not its own")
		}
		purge(a) // this request and those behind it
		purge(b)
		first.on = nil
		first.left = 1
		i.arb.Add(&a.q, a, &first.Pending) // and adds it again
		c.add(4, 1, &log)
	}
	i.arb.Dispatch()
	var ids []int
	for _, r := range log {
		ids = append(ids, r.n)
	}
	if purged != 3 || !slices.Equal(ids, []int{1, 1, 4}) && !slices.Equal(ids, []int{1, 4, 1}) || !i.arb.Empty() {
		t.Errorf("%d purged, went %v, empty %v", purged, ids, i.arb.Empty())
	}

	// An endpoint that fails while it is asked for room leaves; its requests stay until a purge.
	a.add(5, 1, &log)
	b.add(6, 1, &log)
	a.onRoom = func() { a.failed = true; i.arb.Leave(&a.q) }
	log = nil
	i.arb.Dispatch()
	if len(log) != 1 || log[0].n != 6 || !i.arb.Empty() || a.q.Empty() {
		t.Errorf("%d went, empty %v, of the failed one %v", len(log), i.arb.Empty(), a.q.Empty())
	}
	i.arb.Leave(&a.q) // again
	purge(a)
	if purged != 4 {
		t.Errorf("%d purged", purged)
	}
}

func TestArbiterDoesNotAllocate(t *testing.T) {
	i := new(shared)
	log := make([]*request, 0, 8)
	a, b := &sender{i: i}, &sender{i: i, id: 1}
	ra, rb := &request{from: a, log: &log}, &request{from: b, log: &log}
	ra.Owner, rb.Owner = ra, rb
	if n := testing.AllocsPerRun(100, func() {
		log = log[:0]
		ra.left, rb.left, a.room, b.room, i.credits = 2, 1, 2, 1, 9
		i.arb.Add(&a.q, a, &ra.Pending)
		i.arb.Add(&b.q, b, &rb.Pending)
		if i.arb.Dispatch() != 3 || !i.arb.Empty() {
			t.Fatal("not all went")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRingModel compares with a list whose first element is the next one.
func TestRingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Ring[int]
		nodes := make([]Node[int], 5)
		var list []int
		pick := rapid.IntRange(0, len(nodes)-1)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if k := pick.Draw(t, "node"); !slices.Contains(list, k) {
					r.Add(&nodes[k], k)
					list = append(list, k)
				}
			},
			"pass": func(*rapid.T) {
				r.Pass()
				if len(list) > 0 {
					list = append(list[1:], list[0])
				}
			},
			"remove": func(t *rapid.T) {
				k := pick.Draw(t, "node")
				r.Remove(&nodes[k])
				list = slices.DeleteFunc(list, func(o int) bool { return o == k })
			},
			"": func(t *rapid.T) {
				if r.Len() != len(list) || len(list) > 0 && r.Next() != list[0] {
					t.Fatalf("%d nodes, want %v", r.Len(), list)
				}
				for k := range nodes {
					if nodes[k].Listed() != slices.Contains(list, k) {
						t.Fatalf("node %d listed: %v", k, nodes[k].Listed())
					}
				}
			},
		})
	})
}

func TestListedTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var r Ring[int]
	var n Node[int]
	r.Add(&n, 1)
	r.Add(&n, 1)
}
