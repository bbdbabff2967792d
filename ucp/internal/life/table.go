package life

// facts is a set of conditions of a rule, besides the stage and the event.
type facts uint16

const (
	managed facts = 1 << iota
	deaf
	closed
	final
	busy
	asked    // the peer's endpoint may exist
	here     // the peer's endpoint exists
	released // the peer's endpoint has sent "released"
	left     // the peer's endpoint has disconnected
	peerFirst
)

func (e End) facts(isBusy bool) (f facts) {
	for _, c := range []struct {
		is bool
		f  facts
	}{
		{e.Managed, managed}, {e.NoCloseMessages, deaf}, {e.Closed, closed}, {e.ShuttingDown, final}, {isBusy, busy},
		{e.PeerDisconnectsFirst, peerFirst}, {e.Peer == PeerAsked, asked}, {e.Peer == PeerHere, here}, {e.Peer == PeerReleased, released}, {e.Peer == PeerLeft, left},
	} {
		if c.is {
			f |= c.f
		}
	}
	return f
}

// rule is a row of the table: in which state an event leads to which new state and duties.
type rule struct {
	from      uint16 // set of stages in which the rule applies
	on        uint32 // set of events to which the rule applies
	need, not facts  // the rule applies if all facts of need, and none of not, are true
	to        Stage  // the next stage
	peer      Peer   // what is then known of the peer's endpoint; PeerUnknown: unchanged
	do        Duty   // the duties
}

type rules []rule

// same is the value of rule.to that means that the stage does not change.
const same = numStages

// in returns a set of stages.
func in(stages ...Stage) (s uint16) {
	for _, k := range stages {
		s |= 1 << k
	}
	return s
}

// on returns a set of events.
func on(events ...Event) (s uint32) {
	for _, k := range events {
		s |= 1 << k
	}
	return s
}

// anyStage is the set of all stages but Gone.
var anyStage = in(Serving, Open, CloseWait, Draining, Flushing, Resigning, Parting, Leaving, Failed)

// table holds the rules. The first rule that applies decides.
var table = rules{
	// Events that the application or the worker causes.
	{in(Serving), on(Claim), 0, closed, Open, 0, 0},
	{in(Serving), on(ShutdownClose), closed | here, busy | deaf, Leaving, 0, SendRemoved}, // the lanes are flushed
	{in(Serving), on(ShutdownClose), closed, busy, Gone, 0, CloseDone | Release},
	{in(Open, Serving), on(Close, ShutdownClose), 0, 0, Draining, 0, Refuse},
	{in(Draining, Flushing, Resigning), on(ShutdownClose), 0, 0, same, 0, 0},
	{in(Draining), on(GiveUp), 0, 0, same, 0, Cancel},
	{in(CloseWait, Failed), on(Close, ShutdownClose, Force), 0, 0, Gone, 0, Refuse | Release},
	{anyStage, on(Force), 0, 0, Gone, 0, Refuse | Cancel | TrySendRemoved | Release},
	{in(Serving), on(Evict), 0, 0, Gone, 0, Cancel | TrySendRemoved | Release},

	// A close waits for operations, then for the flush of the lanes. During the flush the
	// peer may start an operation that needs this endpoint.
	{in(Draining), on(OperationsDone), 0, 0, Flushing, 0, Flush},
	{in(Flushing), on(Flushed), busy, 0, Draining, 0, 0},

	// The last steps of a close over a connection manager: the side that has flushed
	// disconnects, and waits for the other side.
	{in(Flushing), on(Flushed), left, 0, Gone, 0, CloseDone | Release},
	{in(Flushing), on(Flushed), peerFirst, final, Parting, 0, Await},
	{in(Flushing), on(Flushed), managed, 0, Leaving, 0, Disconnect},
	{in(Parting), on(Waited, ShutdownClose), busy, 0, Draining, 0, 0},
	{in(Parting), on(Waited, ShutdownClose), 0, 0, Leaving, 0, Disconnect},

	// The last steps of a close between workers. The cases are, in this order: the peer has
	// no endpoint; no application holds the peer's endpoint; the worker is being shut down; an
	// application may hold the peer's endpoint.
	{in(Flushing), on(Flushed), 0, asked | here | released, Gone, 0, CloseDone | Release},
	{in(Flushing), on(Flushed), released, 0, Leaving, 0, SendRemoved},
	{in(Flushing), on(Flushed), here | final, deaf, Leaving, 0, SendRemoved},
	{in(Flushing), on(Flushed), final, 0, Gone, 0, CloseDone | Release},
	{in(Flushing), on(Flushed), deaf, 0, Serving, 0, CloseDone | Retain},
	{in(Flushing), on(Flushed), here, 0, Resigning, 0, SendReleased},
	{in(Flushing), on(Flushed), 0, 0, Serving, 0, CloseDone},
	{in(Resigning), on(MessageSent), final | busy, 0, Draining, 0, 0},
	{in(Resigning), on(MessageSent), final, 0, Leaving, 0, SendRemoved},
	{in(Resigning), on(MessageSent), 0, 0, Serving, 0, CloseDone},
	{in(Leaving), on(MessageSent), 0, 0, Gone, 0, CloseDone | Release},

	// A serving endpoint is removed when no application holds the peer's endpoint either.
	{in(Serving), on(OperationsDone), released, 0, Leaving, 0, SendRemoved},
	{in(Serving), on(Released), 0, busy, Leaving, PeerReleased, SendRemoved},
	{in(Serving), on(Named), closed | asked, deaf, Resigning, PeerHere, SendReleased},

	// Events of the peer's endpoint.
	{anyStage, on(Asked), 0, 0, same, PeerAsked, 0},
	{anyStage, on(Named), 0, released, same, PeerHere, 0},
	{anyStage, on(Released), 0, left, same, PeerReleased, 0}, // sent again, the message may arrive after the disconnect
	{in(Draining), on(Left), 0, 0, same, PeerLeft, Cancel},
	{in(Flushing), on(Left), 0, 0, same, PeerLeft, 0},
	{in(Parting, Leaving), on(Left), 0, 0, Gone, PeerLeft, CloseDone | Release},
	{in(Open), on(Left), 0, busy, CloseWait, 0, Fail | Disconnect | Await},
	{in(CloseWait), on(Waited), 0, 0, Failed, 0, CallHandler},
	{in(Open), on(Removed, Left, Lost), 0, 0, Failed, 0, Fail | Disconnect | CallHandler},

	// Loss of the peer. It is no failure of an endpoint that only waits for the peer to leave.
	{in(Resigning, Parting, Leaving), on(Removed, Lost), 0, 0, Gone, 0, CloseDone | Release},
	{in(Draining, Flushing), on(Removed), 0, busy, Gone, 0, CloseDone | Release},
	{in(Serving, Draining, Flushing), on(Removed, Left, Lost), 0, 0, Gone, 0, Fail | Release},
}
