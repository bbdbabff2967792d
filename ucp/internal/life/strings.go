package life

import (
	"math/bits"
	"strings"
)

var stageNames = [...]string{"serving", "open", "close wait", "draining", "flushing", "resigning", "parting", "leaving", "failed", "gone"}

// String returns the name of the stage.
func (s Stage) String() string { return name(stageNames[:], int(s)) }

var peerNames = [...]string{"unknown", "asked", "here", "released", "left"}

// String returns the name of the state of the peer's endpoint.
func (p Peer) String() string { return name(peerNames[:], int(p)) }

var eventNames = [...]string{
	"claim", "close", "leave", "give up", "force", "evict", "quiet", "flushed", "waited", "told", "lost",
	"asked", "named", "released", "removed", "left",
}

// String returns the name of the event.
func (e Event) String() string { return name(eventNames[:], int(e)) }

var dutyNames = [...]string{
	"refuse", "cancel", "fail", "flush", "tell released", "tell removed", "say removed", "await", "disconnect",
	"call handler", "close done", "shelve", "release",
}

// String lists the names of the duties.
func (d Duty) String() string { return names(dutyNames[:], uint(d)) }

var factNames = [...]string{"managed", "deaf", "closed", "final", "busy", "asked", "here", "released", "left", "peer first"}

func (f facts) String() string { return names(factNames[:], uint(f)) }

// String returns the rule in readable form.
func (r rule) String() string {
	s := names(stageNames[:], uint(r.from)) + ": " + names(eventNames[:], uint(r.on))
	if r.need != 0 {
		s += " if " + r.need.String()
	}
	if r.not != 0 {
		s += " if not " + r.not.String()
	}
	if r.to != same {
		s += " -> " + r.to.String()
	}
	if r.peer != PeerUnknown {
		s += ", peer " + r.peer.String()
	}
	if r.do != 0 {
		s += ": " + r.do.String()
	}
	return s
}

func name(list []string, k int) string {
	if k < len(list) {
		return list[k]
	}
	return "?"
}

// names lists the names of the members of a bit set.
func names(list []string, set uint) string {
	var members []string
	for ; set != 0; set &= set - 1 {
		members = append(members, name(list, bits.TrailingZeros(set)))
	}
	return strings.Join(members, ", ")
}
