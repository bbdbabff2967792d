package ucp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestExplainOwnLanes: an endpoint explains the lanes that it has, even if other
// lanes would be chosen now, and never gives the reasons of another choice.
func TestExplainOwnLanes(t *testing.T) {
	v := newTarget(t)
	before := v.ep.Explain()
	if len(before.Lanes) != 1 || len(before.Searches) == 0 {
		t.Fatalf("explained as\n%s", before)
	}
	defer func(flags uct.IfaceFlags) { v.selection.locals[0].Attr.Flags = flags }(v.selection.locals[0].Attr.Flags)
	v.selection.locals[0].Attr.Flags &^= uct.IfaceAMBcopy
	after := v.ep.Explain()
	if diff := cmp.Diff(before.Lanes, after.Lanes); diff != "" {
		t.Errorf("lanes (-before +after):\n%s", diff)
	}
	if after.Searches != nil || !strings.Contains(after.String(), "cannot be explained any more") {
		t.Errorf("reasons of another choice:\n%s", after)
	}
	v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
	if closed := v.ep.Explain(); len(closed.Lanes) != 0 {
		t.Errorf("a closed endpoint has lanes %q", closed.Lanes)
	}
}

// TestExplainDoubted: an endpoint whose peer falsely claims to be on this machine has
// only the remaining lanes, and explains why.
func TestExplainDoubted(t *testing.T) {
	v := newTarget(t, "TLS", "posix,tcp", "NET_DEVICES", "lo")
	from := &located{elsewhere: true}
	from.Owner = from
	m := v.stranger(0xABC, 0)
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.wireups.onWireup(&from.Source, b, nil); err != nil {
		t.Fatal(err)
	}
	found := false
	v.endpoints.Each(func(ep *Endpoint) {
		if ep == v.ep {
			return
		}
		found = true
		e := ep.Explain()
		if len(e.Lanes) != 1 || !strings.Contains(e.Lanes[0], "tcp/lo") || len(e.Searches) == 0 {
			t.Errorf("explained as\n%s", e)
		}
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	})
	if !found {
		t.Error("there is no endpoint")
	}
}
