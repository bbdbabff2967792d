package ledger

import (
	"sync/atomic"
	"time"
)

// Reason is why something was refused to a peer.
type Reason uint8

// Reasons.
const (
	Memory      Reason = iota // unexpected messages take too much
	Answers                   // it does not read its answers
	Reads                     // too many of its gets wait for it
	TooManyEps                // it has opened too many endpoints
	Connections               // it has too many connections, or all have
	Descriptors               // the process has few descriptors left
	Policy                    // the application does not want it
	Claim                     // it said that it is somebody else
	Silence                   // it took too long to say what it wants
	Access                    // memory that it may not reach
	Malformed                 // what it sent makes no sense
	Evicted                   // it held most when there was no room, and lost that
	Handshake                 // it did not prove who it is, or what it said of us
	Token                     // it did not prove that it has the worker's address
	Panic                     // a function of the application has panicked about it
	Stray                     // what it sent is for nobody here

	NumReasons
)

// String names the reason.
func (r Reason) String() string {
	return [NumReasons]string{
		"memory", "answers", "reads", "endpoints", "connections", "descriptors", "policy", "claim", "silence", "access", "malformed", "evicted", "handshake", "token", "panic", "stray",
	}[r]
}

// logInterval is how often a kind of refusal is worth a line of the log.
const logInterval = time.Minute

// refusals of the process, by reason. Peers can bring them about at any rate.
var refusals [NumReasons]struct {
	count atomic.Uint64
	next  atomic.Int64 // when the next one may be logged, by now
}

// started is what times are counted from.
var started = time.Now()

// now is the time since the start, in ns; tests have their own.
var now = func() int64 { return int64(time.Since(started)) }

// Refuse counts a refusal. It reports whether the caller shall log it: once a minute
// for each reason, whoever it is about.
func (a *Account) Refuse(r Reason) (worthALine bool) {
	if a != nil {
		a.refused[r].Add(1)
	}
	f := &refusals[r]
	f.count.Add(1)
	t, next := now(), f.next.Load()
	return t >= next && f.next.CompareAndSwap(next, t+int64(logInterval))
}

// LogAgain makes the next refusal of each kind worth a line of the log: tests look
// for it.
func LogAgain() {
	for r := range refusals {
		refusals[r].next.Store(0)
	}
}

// Refused is how often something was refused to the source.
func (a *Account) Refused(r Reason) uint64 {
	if a == nil {
		return 0
	}
	return a.refused[r].Load()
}

// Refusals is how often something was refused to anybody, since the process started.
func Refusals(r Reason) uint64 { return refusals[r].count.Load() }
