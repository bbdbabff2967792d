//go:build linux

package rc

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestFence checks that an operation after a fence waits for reads in flight and for nothing else,
// and that the first put after it uses the second key.
func TestFence(t *testing.T) {
	const direct, second = 0x11, 0x22
	key, single := &uct.Rkey{Value: second<<32 | direct}, &uct.Rkey{Value: 0xffffffff<<32 | direct}
	for _, c := range []struct {
		name    string
		noFence bool
		fetched bool
		flags   verbs.SendFlags
		strict  bool
	}{
		{"nothing under way", false, false, 0, true},
		{"a read under way", false, true, verbs.SendFence, true},
		{"no fences", true, true, 0, false},
	} {
		e := &endpoint{iface: &iface{noFence: c.noFence, moderation: 9, credits: 9}, posted: 5, done: 4, peer: epAddress{offset: 24}}
		if e.fetches = 4; c.fetched {
			e.fetches = 5
		}
		if f := e.flags(false); f != 0 {
			t.Errorf("%s: %#x before the fence", c.name, f)
		}
		if err := e.Fence(); err != nil {
			t.Fatal(err)
		}
		if f := e.signal(false); f != 0 {
			t.Errorf("%s: %#x for a grant", c.name, f)
		}
		if f := e.flags(false); f != c.flags {
			t.Errorf("%s: %#x behind the fence, want %#x", c.name, f, c.flags)
		}
		if f := e.flags(false); f != 0 {
			t.Errorf("%s: %#x then", c.name, f)
		}
		at, k := e.target(1000, key)
		if strict := at == 1024 && k == second; strict != c.strict || !strict && (at != 1000 || k != direct) {
			t.Errorf("%s: the put goes to %d by %#x", c.name, at, k)
		}
		if at, k := e.target(1000, key); at != 1000 || k != direct {
			t.Errorf("%s: the second put goes to %d by %#x", c.name, at, k)
		}
		if at, k := e.strict(1000, single); at != 1000 || k != direct {
			t.Errorf("%s: with one key an atomic operation goes to %d by %#x", c.name, at, k)
		}
	}
}
