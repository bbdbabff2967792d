//go:build linux

package ucptest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// testRkeyOrder checks that keys of several memories can be sorted: the comparison is a total
// order, the same on every endpoint and for any order of unpacking, and keys of different memories
// that are accessed directly differ.
func testRkeyOrder(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	c := a // another side that connects to b
	if !tr.loopback {
		c = r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
	}
	var memories []*ucp.Memory
	for n := range 3 {
		memories = append(memories, b.allocate(100+n*5000), b.expose(make([]byte, 100+n), 0))
	}

	// The same keys on two endpoints, unpacked in opposite orders, each twice.
	unpackAll := func(ep *ucp.Endpoint, order []int) [][2]window {
		list := make([][2]window, len(memories))
		for _, k := range order {
			list[k] = [2]window{r.unpack(ep, memories[k]), r.unpack(ep, memories[k])}
		}
		return list
	}
	forward := []int{0, 1, 2, 3, 4, 5}
	backward := slices.Clone(forward)
	slices.Reverse(backward)
	here, there := unpackAll(a.connect(b), forward), unpackAll(c.connect(b), backward)

	sign := func(list [][2]window, i, j int) int { return list[i][0].key.Compare(list[j][1].key) }
	for i := range memories {
		if sign(here, i, i) != 0 || sign(there, i, i) != 0 {
			t.Errorf("two keys of memory %d differ", i)
		}
		if here[i][0].key.Compare(there[i][0].key) != 0 {
			t.Errorf("keys of memory %d on two endpoints differ", i)
		}
		for j := range memories {
			x := sign(here, i, j)
			if y := sign(here, j, i); x != -y {
				t.Errorf("memories %d and %d compare %d one way, %d the other", i, j, x, y)
			}
			if y := sign(there, i, j); x != y {
				t.Errorf("memories %d and %d compare %d on one endpoint, %d on the other", i, j, x, y)
			}
			_, one := here[i][0].key.Ptr(here[i][0].addr, 1)
			_, two := here[j][0].key.Ptr(here[j][0].addr, 1)
			if i != j && x == 0 && one == nil && two == nil && !tr.loopback {
				t.Errorf("memories %d and %d, both mapped here, compare equal", i, j)
			}
			for k := range memories {
				if x <= 0 && sign(here, j, k) <= 0 && sign(here, i, k) > 0 {
					t.Errorf("memory %d is not behind %d, nor %d behind %d, but %d is behind %d", i, j, j, k, i, k)
				}
			}
		}
	}

	// Sorting any permutation gives the same order.
	compare := func(x, y window) int { return x.key.Compare(y.key) }
	var sorted []window
	for start := range memories {
		for step := 1; step < len(memories); step += 4 { // steps 1 and 5 visit all six keys
			var list []window
			for n := range memories {
				k := (start + n*step) % len(memories)
				list = append(list, [][][2]window{here, there}[n%2][k][n/2%2])
			}
			slices.SortFunc(list, compare)
			if sorted == nil {
				sorted = list
			}
			if !slices.EqualFunc(list, sorted, func(x, y window) bool { return compare(x, y) == 0 }) {
				t.Errorf("sorted from %d on by steps of %d: another order", start, step)
			}
		}
	}
}
