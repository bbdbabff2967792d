package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// TestConnSharedMemory: between two of this library a connection in ErrModePeer gets shared
// memory, which C UCX does not use there by default.
func TestConnSharedMemory(t *testing.T) {
	d := newDuo(t)
	d.dial()
	if !d.settled() {
		t.Fatal(d.there.Err(), d.back)
	}
	for what, ep := range map[string]*Endpoint{"client": d.there, "server": d.back} {
		if am := ep.w.selection.laneName(ep, int(ep.amLane())); am != "posix/memory" {
			t.Errorf("the %s's lane for messages is %s", what, am)
		}
	}
	d.leave()
}

// otherWorker is an interface whose peers are of another make.
type otherWorker struct {
	uct.Iface
	uct.BasicProcessIface
}

func (o otherWorker) FindProcess(p uct.ReachableParams, _ func(uct.Process) bool) (uct.Process, error) {
	return 0, o.Reachable(p)
}

// TestMutual: toward others shared memory is not used where C UCX would not, unless the
// setting says that it would.
func TestMutual(t *testing.T) {
	for _, announced := range []string{"n", "y"} {
		d := newDuo(t, "POSIX_ERROR_HANDLING", announced)
		for k, i := range d.s.ifaces {
			stranded := *i
			stranded.uct = otherWorker{Iface: i.uct}
			d.s.ifaces[k] = &stranded
		}
		choose := func(mode ErrMode, mutual bool) string {
			chosen, _, err := d.s.selection.selectLanes(&d.c.own.described, mode, laneRules{cm: true, mutual: mutual})
			if err != nil {
				t.Fatal(err)
			}
			return chosen.Lanes[chosen.AM].Name
		}
		want := "tcp/lo"
		if announced == "y" {
			want = "posix/memory"
		}
		if name := choose(ErrModePeer, true); name != want {
			t.Errorf("announced %s, ErrModePeer: %s", announced, name)
		}
		if name := choose(ErrModePeer, false); name != "posix/memory" {
			t.Errorf("announced %s, ErrModePeer, by our rules: %s", announced, name)
		}
		if name := choose(ErrModeNone, true); name != "posix/memory" {
			t.Errorf("announced %s, ErrModeNone: %s", announced, name)
		}
		for k, i := range d.s.ifaces {
			i.uct = i.uct.(otherWorker).Iface
			d.s.ifaces[k] = i
		}
	}
}
