//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Counters are what the state machine of an interface has counted.
func Counters(i uct.Iface) flow.Counters { return i.(*iface).flow.Counters }

// Connections is how many connections an interface has, closed ones and those that peers
// have made among them.
func Connections(i uct.Iface) int { return i.(*iface).flow.Endpoints() }

// Break puts the queue pair of an interface into its error state.
func Break(i uct.Iface) error {
	return i.(*iface).qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}

// Held is how many slots of an interface are in use, and how many things in limbo.
func Held(i uct.Iface) (slots, limbo int) {
	s, l := &i.(*iface).slots, &i.(*iface).limbo
	return s.out[0] + s.out[1] + len(s.heldMark) - len(s.freeMarks), len(l.list) - l.head
}

// Alarmed reports whether the timer of an interface is set.
func Alarmed(i uct.Iface) bool { return i.(*iface).alarm.at != 0 }
