package ucp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestExplainOwnLanes: an endpoint explains the lanes it has, also when another
// choice would be made now, and gives no reasons but its own.
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
	if after.Searches != nil || !strings.Contains(after.String(), "cannot be told any more") {
		t.Errorf("reasons of another choice:\n%s", after)
	}
	v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
	if closed := v.ep.Explain(); len(closed.Lanes) != 0 {
		t.Errorf("a closed endpoint has lanes %q", closed.Lanes)
	}
}

// TestExplainDoubted: an endpoint whose peer was not believed that it is on this
// machine has the lanes that are left, and tells why.
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
