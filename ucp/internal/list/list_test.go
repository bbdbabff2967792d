package list

import (
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/race"
)

// element can be in a list, a queue or a stack, and in a set.
type element struct {
	id     int
	node   Node[element]
	member Member[element]
}

func newElement(id int) *element {
	e := &element{id: id}
	e.node.Value, e.member.Value = e, e
	return e
}

func newElements(n int) []*element {
	s := make([]*element, n)
	for i := range s {
		s[i] = newElement(i)
	}
	return s
}

// elements returns the elements of a list, a queue or a stack, given the first node.
func elements(first *Node[element]) (s []*element) {
	for n := first; n != nil; n = n.Next() {
		s = append(s, n.Value)
	}
	return s
}

// members returns the elements of a set.
func (s *Set[T]) members() (all []*T) {
	for m := s.First(); m != nil; m = m.Next() {
		all = append(all, m.Value)
	}
	return all
}

// mustPanic fails the test unless f panics.
func mustPanic(t interface{ Errorf(string, ...any) }, what string, f func()) {
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// nodeOf returns the node of an element, nil for none.
func nodeOf(e *element) *Node[element] {
	if e == nil {
		return nil
	}
	return &e.node
}

// lastOf returns the last element of a slice, nil if the slice is empty.
func lastOf(s []*element) *element {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// without returns a slice without one of its elements.
func without(s []*element, e *element) []*element {
	i := slices.Index(s, e)
	return slices.Delete(slices.Clone(s), i, i+1)
}

// TestListModel moves elements between two lists, and compares with slices.
func TestListModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := newElements(6)
		var lists [2]List[element]
		var model [2][]*element
		which := rapid.IntRange(0, 1)
		// listOf returns the index of the list that an element is in, -1 for none.
		listOf := func(e *element) int {
			return slices.IndexFunc(model[:], func(s []*element) bool { return slices.Contains(s, e) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"Push": func(t *rapid.T) {
				e, k := rapid.SampledFrom(all).Draw(t, "element"), which.Draw(t, "list")
				if listOf(e) >= 0 {
					mustPanic(t, "Push of an element of a list", func() { lists[k].Push(&e.node) })
					return
				}
				lists[k].Push(&e.node)
				model[k] = append(model[k], e)
			},
			"PushFront": func(t *rapid.T) {
				e, k := rapid.SampledFrom(all).Draw(t, "element"), which.Draw(t, "list")
				if listOf(e) >= 0 {
					mustPanic(t, "PushFront of an element of a list", func() { lists[k].PushFront(&e.node) })
					return
				}
				lists[k].PushFront(&e.node)
				model[k] = slices.Insert(model[k], 0, e)
			},
			"Pop": func(t *rapid.T) {
				k := which.Draw(t, "list")
				if len(model[k]) == 0 {
					mustPanic(t, "Pop of an empty list", func() { lists[k].Pop() })
					return
				}
				if e := lists[k].Pop(); e != model[k][0] {
					t.Fatalf("Pop = %d, want %d", e.id, model[k][0].id)
				}
				model[k] = model[k][1:]
			},
			"Remove": func(t *rapid.T) {
				e := rapid.SampledFrom(all).Draw(t, "element")
				k := listOf(e)
				if k < 0 {
					mustPanic(t, "Remove of an element of no list", func() { e.node.Remove() })
					return
				}
				e.node.Remove()
				model[k] = without(model[k], e)
			},
			"": func(t *rapid.T) {
				for k := range lists {
					l, want := &lists[k], model[k]
					if got := elements(l.Front()); !slices.Equal(got, want) {
						t.Fatalf("list %d: %v, want %v", k, got, want)
					}
					if l.Empty() != (len(want) == 0) || l.Back() != nodeOf(lastOf(want)) {
						t.Fatalf("list %d of %d elements: Empty = %v, Back = %v", k, len(want), l.Empty(), l.Back())
					}
					for i, e := range want {
						if prev := want[(i+len(want)-1)%len(want)]; e.node.prev.Value != prev {
							t.Fatalf("prev = %v, want %v", e.node.prev.Value, prev)
						}
					}
				}
				for _, e := range all {
					k := listOf(e)
					if e.node.Linked() != (k >= 0) || e.node.In(&lists[0]) != (k == 0) || e.node.In(&lists[1]) != (k == 1) {
						t.Fatalf("element %d of list %d: Linked = %v", e.id, k, e.node.Linked())
					}
				}
			},
		})
	})
}

// TestQueueAndStackModel moves elements between a queue and a stack, and compares with slices.
func TestQueueAndStackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := newElements(6)
		var (
			queue  Queue[element]
			stack  Stack[element]
			queued []*element
			piled  []*element // the top of the stack comes first
		)
		// enters calls add for an element that is in no list, and reports whether it did. In race
		// builds it checks that add panics for an element of a list.
		enters := func(t *rapid.T, e *element, add func()) bool {
			if !slices.Contains(queued, e) && !slices.Contains(piled, e) {
				add()
				return true
			}
			if race.Enabled {
				mustPanic(t, "addition of an element that is in use", add)
			}
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"Queue.Push": func(t *rapid.T) {
				e := rapid.SampledFrom(all).Draw(t, "element")
				if enters(t, e, func() { queue.Push(&e.node) }) {
					queued = append(queued, e)
				}
			},
			"Queue.PushFront": func(t *rapid.T) {
				e := rapid.SampledFrom(all).Draw(t, "element")
				if enters(t, e, func() { queue.PushFront(&e.node) }) {
					queued = slices.Insert(queued, 0, e)
				}
			},
			"Queue.Pop": func(t *rapid.T) {
				if len(queued) == 0 {
					mustPanic(t, "Pop of an empty queue", func() { queue.Pop() })
					return
				}
				if e := queue.Pop(); e != queued[0] {
					t.Fatalf("Pop = %d, want %d", e.id, queued[0].id)
				}
				queued = queued[1:]
			},
			"Queue.Remove": func(t *rapid.T) {
				e := rapid.SampledFrom(all).Draw(t, "element")
				if !slices.Contains(queued, e) {
					mustPanic(t, "Remove of an element that is not in the queue", func() { queue.Remove(&e.node) })
					return
				}
				queue.Remove(&e.node)
				queued = without(queued, e)
			},
			"Stack.Push": func(t *rapid.T) {
				e := rapid.SampledFrom(all).Draw(t, "element")
				if enters(t, e, func() { stack.Push(&e.node) }) {
					piled = slices.Insert(piled, 0, e)
				}
			},
			"Stack.Pop": func(t *rapid.T) {
				if len(piled) == 0 {
					mustPanic(t, "Pop of an empty stack", func() { stack.Pop() })
					return
				}
				if e := stack.Pop(); e != piled[0] {
					t.Fatalf("Pop = %d, want %d", e.id, piled[0].id)
				}
				piled = piled[1:]
			},
			"": func(t *rapid.T) {
				if got := elements(queue.Front()); !slices.Equal(got, queued) || queue.Empty() != (len(queued) == 0) {
					t.Fatalf("queue %v, want %v; Empty = %v", got, queued, queue.Empty())
				}
				if got := elements(stack.head); !slices.Equal(got, piled) || stack.Empty() != (len(piled) == 0) {
					t.Fatalf("stack %v, want %v; Empty = %v", got, piled, stack.Empty())
				}
			},
		})
	})
}

// TestSetModel moves elements between two sets, and compares with slices.
func TestSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := newElements(6)
		var sets [2]Set[element]
		var model [2][]*element
		setOf := func(e *element) int {
			return slices.IndexFunc(model[:], func(s []*element) bool { return slices.Contains(s, e) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"Add": func(t *rapid.T) {
				e, k := rapid.SampledFrom(all).Draw(t, "element"), rapid.IntRange(0, 1).Draw(t, "set")
				if setOf(e) >= 0 {
					mustPanic(t, "Add of an element of a set", func() { sets[k].Add(&e.member) })
					return
				}
				sets[k].Add(&e.member)
				model[k] = slices.Insert(model[k], 0, e)
			},
			"Remove": func(t *rapid.T) {
				e := rapid.SampledFrom(all).Draw(t, "element")
				k := setOf(e)
				if k < 0 {
					mustPanic(t, "Remove of an element of no set", func() { e.member.Remove() })
					return
				}
				e.member.Remove()
				model[k] = without(model[k], e)
			},
			"": func(t *rapid.T) {
				for k := range sets {
					s, want := &sets[k], model[k]
					if got := s.members(); !slices.Equal(got, want) || s.Empty() != (len(want) == 0) {
						t.Fatalf("set %d: %v, want %v; Empty = %v", k, got, want, s.Empty())
					}
				}
			},
		})
	})
}

// TestSizes checks the sizes that the table of the package comment has, in words.
func TestSizes(t *testing.T) {
	const word = unsafe.Sizeof(uintptr(0))
	for what, s := range map[string]struct{ size, words uintptr }{
		"List":   {unsafe.Sizeof(List[element]{}), 1},
		"Queue":  {unsafe.Sizeof(Queue[element]{}), 2},
		"Stack":  {unsafe.Sizeof(Stack[element]{}), 1},
		"Set":    {unsafe.Sizeof(Set[element]{}), 1},
		"Node":   {unsafe.Sizeof(Node[element]{}), 4},
		"Member": {unsafe.Sizeof(Member[element]{}), 3},
	} {
		if s.size != s.words*word {
			t.Errorf("%s takes %d bytes, want %d words", what, s.size, s.words)
		}
	}
}

// TestNodeMoves moves an element as requests move: from the free list to a queue, then to a list, and
// back. The nodes that the element had as neighbors do not matter afterwards.
func TestNodeMoves(t *testing.T) {
	all := newElements(3)
	var (
		free    Stack[element]
		posted  Queue[element]
		waiting List[element]
	)
	for range 2 {
		for _, e := range all {
			free.Push(&e.node)
		}
		for !free.Empty() {
			posted.Push(&free.Pop().node)
		}
		posted.Remove(&all[1].node)
		for !posted.Empty() {
			waiting.PushFront(&posted.Pop().node)
		}
		waiting.Push(&all[1].node)
		if got, want := elements(waiting.Front()), []*element{all[0], all[2], all[1]}; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for n := waiting.Front(); n != nil; {
			next := n.Next() // before the removal
			n.Remove()
			n = next
		}
		if !waiting.Empty() || slices.ContainsFunc(all, func(e *element) bool { return e.node.Linked() }) {
			t.Fatal("the list is not empty")
		}
	}
}

// TestListAllocs: no operation allocates.
func TestListAllocs(t *testing.T) {
	e := newElement(1)
	var (
		l List[element]
		q Queue[element]
		s Stack[element]
		m Set[element]
	)
	if n := testing.AllocsPerRun(100, func() {
		s.Push(&e.node)
		q.Push(&s.Pop().node)
		l.Push(&q.Pop().node)
		l.Pop()
		m.Add(&e.member)
		e.member.Remove()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
