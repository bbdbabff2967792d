package life

// facts are what rules ask for besides stage and event.
type facts uint16

const (
	managed facts = 1 << iota
	deaf
	closed
	final
	busy
	asked    // the peer's end: may be there
	here     // is there
	released // has said "released"
	left     // has disconnected
	patient
)

func (e End) facts(isBusy bool) (f facts) {
	for _, c := range []struct {
		is bool
		f  facts
	}{
		{e.Managed, managed}, {e.Deaf, deaf}, {e.Closed, closed}, {e.Final, final}, {isBusy, busy},
		{e.Patient, patient}, {e.Peer == PeerAsked, asked}, {e.Peer == PeerHere, here}, {e.Peer == PeerReleased, released}, {e.Peer == PeerLeft, left},
	} {
		if c.is {
			f |= c.f
		}
	}
	return f
}

// rule is a line of the table: in one of the stages from, on one of the events on, if all
// that it needs is so and nothing of not, the end comes to stage to.
type rule struct {
	from      uint16
	on        uint32
	need, not facts
	to        Stage
	peer      Peer // what is known of it then; PeerUnknown: as before
	do        Duty
}

type rules []rule

// same is the stage that the end is in.
const same = numStages

// in and on make sets.
func in(stages ...Stage) (s uint16) {
	for _, k := range stages {
		s |= 1 << k
	}
	return s
}

func on(events ...Event) (s uint32) {
	for _, k := range events {
		s |= 1 << k
	}
	return s
}

// anyStage are all but the last.
var anyStage = in(Serving, Open, CloseWait, Draining, Flushing, Resigning, Parting, Leaving, Failed)

// table says it all. The first rule that fits decides.
var table = rules{
	// The application.
	{in(Serving), on(Claim), 0, closed, Open, 0, 0},
	{in(Serving), on(Leave), closed | here, busy | deaf, Leaving, 0, TellRemoved}, // it has flushed
	{in(Serving), on(Leave), closed, busy, Gone, 0, CloseDone | Release},
	{in(Open, Serving), on(Close, Leave), 0, 0, Draining, 0, Refuse},
	{in(Draining, Flushing, Resigning), on(Leave), 0, 0, same, 0, 0},
	{in(Draining), on(GiveUp), 0, 0, same, 0, Cancel},
	{in(CloseWait, Failed), on(Close, Leave, Force), 0, 0, Gone, 0, Refuse | Release},
	{anyStage, on(Force), 0, 0, Gone, 0, Refuse | Cancel | SayRemoved | Release},
	{in(Serving), on(Evict), 0, 0, Gone, 0, Cancel | SayRemoved | Release},

	// What a close waits for. While the lanes are flushed the peer may ask for something.
	{in(Draining), on(Quiet), 0, 0, Flushing, 0, Flush},
	{in(Flushing), on(Flushed), busy, 0, Draining, 0, 0},

	// The end of a close over a connection manager: the side that has flushed disconnects,
	// and waits for the other one.
	{in(Flushing), on(Flushed), left, 0, Gone, 0, CloseDone | Release},
	{in(Flushing), on(Flushed), patient, final, Parting, 0, Await},
	{in(Flushing), on(Flushed), managed, 0, Leaving, 0, Disconnect},
	{in(Parting), on(Waited, Leave), busy, 0, Draining, 0, 0},
	{in(Parting), on(Waited, Leave), 0, 0, Leaving, 0, Disconnect},

	// The end of a close between workers. Nobody is there; nobody holds the other end; the
	// worker goes; somebody may hold it.
	{in(Flushing), on(Flushed), 0, asked | here | released, Gone, 0, CloseDone | Release},
	{in(Flushing), on(Flushed), released, 0, Leaving, 0, TellRemoved},
	{in(Flushing), on(Flushed), here | final, deaf, Leaving, 0, TellRemoved},
	{in(Flushing), on(Flushed), final, 0, Gone, 0, CloseDone | Release},
	{in(Flushing), on(Flushed), deaf, 0, Serving, 0, CloseDone | Shelve},
	{in(Flushing), on(Flushed), here, 0, Resigning, 0, TellReleased},
	{in(Flushing), on(Flushed), 0, 0, Serving, 0, CloseDone},
	{in(Resigning), on(Told), final | busy, 0, Draining, 0, 0},
	{in(Resigning), on(Told), final, 0, Leaving, 0, TellRemoved},
	{in(Resigning), on(Told), 0, 0, Serving, 0, CloseDone},
	{in(Leaving), on(Told), 0, 0, Gone, 0, CloseDone | Release},

	// An end that serves goes when the other one is held by nobody either.
	{in(Serving), on(Quiet), released, 0, Leaving, 0, TellRemoved},
	{in(Serving), on(Released), 0, busy, Leaving, PeerReleased, TellRemoved},
	{in(Serving), on(Named), closed | asked, deaf, Resigning, PeerHere, TellReleased},

	// The peer's end.
	{anyStage, on(Asked), 0, 0, same, PeerAsked, 0},
	{anyStage, on(Named), 0, released, same, PeerHere, 0},
	{anyStage, on(Released), 0, 0, same, PeerReleased, 0},
	{in(Draining), on(Left), 0, 0, same, PeerLeft, Cancel},
	{in(Flushing), on(Left), 0, 0, same, PeerLeft, 0},
	{in(Parting, Leaving), on(Left), 0, 0, Gone, PeerLeft, CloseDone | Release},
	{in(Open), on(Left), 0, busy, CloseWait, 0, Fail | Disconnect | Await},
	{in(CloseWait), on(Waited), 0, 0, Failed, 0, CallHandler},
	{in(Open), on(Removed, Left, Lost), 0, 0, Failed, 0, Fail | Disconnect | CallHandler},

	// Loss. To an end that only waits for its peer to go it is no failure.
	{in(Resigning, Parting, Leaving), on(Removed, Lost), 0, 0, Gone, 0, CloseDone | Release},
	{in(Draining, Flushing), on(Removed), 0, busy, Gone, 0, CloseDone | Release},
	{in(Serving, Draining, Flushing), on(Removed, Left, Lost), 0, 0, Gone, 0, Fail | Release},
}
