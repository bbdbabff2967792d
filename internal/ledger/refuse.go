package ledger

import (
	"sync/atomic"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
)

// Reason is why something was refused to a peer.
type Reason uint8

// Reasons for refusals.
const (
	Memory      Reason = iota // messages that the application has not received take too much memory
	Answers                   // the peer does not read its replies
	Reads                     // too many gets of the peer are pending
	TooManyEps                // the peer has opened too many endpoints
	Connections               // the peer, or all peers together, have too many connections
	Descriptors               // the process has few descriptors left
	Policy                    // the application refuses the peer
	Claim                     // the peer claimed the identity of another
	Silence                   // the peer took too long to send its request
	Access                    // the peer addressed memory that it may not access
	Malformed                 // the peer sent malformed data
	Evicted                   // the peer held the most when resources ran out, and lost some
	Handshake                 // the peer did not prove its identity, or what it claimed about this side
	Token                     // the peer did not prove that it has the worker's address
	Panic                     // a function of the application panicked on data of the peer
	Stray                     // the peer sent data for no object of this process

	NumReasons
)

// String returns the name of the reason.
func (r Reason) String() string {
	return [NumReasons]string{
		"memory", "answers", "reads", "endpoints", "connections", "descriptors", "policy", "claim", "silence", "access", "malformed", "evicted", "handshake", "token", "panic", "stray",
	}[r]
}

// logInterval is the least time between two log lines for one reason.
const logInterval = time.Minute

// refusals counts the refusals for one reason. Peers can cause them at any rate.
type refusals struct {
	count atomic.Uint64
	next  atomic.Int64 // time, as now returns it, from which the next refusal may be logged
}

// now is the time since the process started, in ns; tests replace it.
var now = func() int64 { return int64(platform.Now()) }

// Refuse counts a refusal. It reports whether the caller should log it: once a minute for each
// reason, for all sources together.
func (a *Account) Refuse(r Reason) (worthALine bool) {
	if a != nil {
		a.refused[r].Add(1)
	}
	f := &process.Get().refusals[r]
	f.count.Add(1)
	t, next := now(), f.next.Load()
	return t >= next && f.next.CompareAndSwap(next, t+int64(logInterval))
}

// LogAgain makes the next refusal for each reason write a log line. Tests use it.
func LogAgain() {
	for r := range NumReasons {
		process.Get().refusals[r].next.Store(0)
	}
}

// Refused returns the number of refusals of the source for a reason.
func (a *Account) Refused(r Reason) uint64 {
	if a == nil {
		return 0
	}
	return a.refused[r].Load()
}

// Refusals returns the number of refusals of all sources for a reason, since the process started.
func Refusals(r Reason) uint64 { return process.Get().refusals[r].count.Load() }
