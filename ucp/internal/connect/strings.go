package connect

import (
	"math/bits"
	"strings"
)

var roleNames = [...]string{"peer", "client", "server"}

// String returns the name of the role.
func (r Role) String() string { return name(roleNames[:], int(r)) }

var stageNames = [...]string{"idle", "starting", "joined", "requested", "crossed", "both", "replied", "open", "failed"}

// String returns the name of the stage.
func (s Stage) String() string { return name(stageNames[:], int(s)) }

var eventNames = [...]string{
	"need", "loopback", "repeat", "duty failed", "timed out", "auxiliary lost", "lost", "tick",
	"data", "notified",
	"opened", "PRE_REQUEST", "REQUEST", "REPLY", "RECONFIG", "ACK",
}

// String returns the name of the event.
func (e Event) String() string { return name(eventNames[:], int(e)) }

var factNames = [...]string{
	"lanes", "larger uuid", "same uuid", "no auxiliary", "dead", "can ask", "all devices", "repeated", "exhausted", "overdue",
}

// String lists the names of the facts.
func (f Facts) String() string { return names(factNames[:], uint(f)) }

var dutyNames = [...]string{
	"drop", "replace", "retry", "connect", "notify", "PRE_REQUEST", "REQUEST", "again", "REPLY", "ACK", "EP_REMOVED", "start",
	"ignore", "check", "ask", "skip check", "fail: devices", "fail: ACK",
}

// String lists the names of the duties.
func (d Duty) String() string { return names(dutyNames[:], uint(d)) }

// cells returns the columns of the rule in the table of the package comment.
func (r *rule) cells() []string {
	conditions := strings.Split(r.need.String(), ", ")
	if r.need == 0 {
		conditions = nil
	}
	if r.not != 0 {
		conditions = append(conditions, "not "+r.not.String())
	}
	next := r.to.String()
	if r.to == same {
		next = "same"
	}
	roles, from, events := names(roleNames[:], uint(r.roles)), names(stageNames[:], uint(r.from)), names(eventNames[:], uint(r.on))
	if r.roles == anyone {
		roles = "all"
	}
	switch {
	case r.from == anyStage:
		from = "all"
	case r.from == notFailed:
		from = "all but failed"
	}
	if r.on == messages {
		events = "a message"
	}
	return []string{roles, from, events, strings.Join(conditions, ", "), next, r.do.String()}
}

// String returns the rule in readable form.
func (r *rule) String() string {
	c := r.cells()
	s := c[0] + ", " + c[1] + ": " + c[2]
	if c[3] != "" {
		s += " if " + c[3]
	}
	s += " -> " + c[4]
	if c[5] != "" {
		s += ": " + c[5]
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
