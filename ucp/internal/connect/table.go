package connect

// rule is a row of the table: in which state an event leads to which new state and duties.
type rule struct {
	roles     uint8  // set of roles to which the rule applies
	from      uint16 // set of stages in which the rule applies
	on        uint16 // set of events to which the rule applies
	need, not Facts  // the rule applies if all facts of need, and none of not, are true
	to        Stage  // the next stage
	do        Duty   // the duties
	count     effect // what happens to a counter
}

type rules []rule

// same is the value of rule.to that means that the stage does not change.
const same = numStages

// Sets of roles.
const (
	peer   = 1 << Peer
	client = 1 << Client
	server = 1 << Server
	anyone = peer | client | server
)

// in returns a set of stages.
func in(stages ...Stage) (s uint16) {
	for _, k := range stages {
		s |= 1 << k
	}
	return s
}

// on returns a set of events.
func on(events ...Event) (s uint16) {
	for _, k := range events {
		s |= 1 << k
	}
	return s
}

var (
	// notFailed is the set of all stages but Failed.
	notFailed = in(Idle, Starting, Joined, Requested, Crossed, Both, Replied, Open)

	anyStage = notFailed | in(Failed)

	// messages is the set of all messages of the other side.
	messages = on(Opened, PreRequest, Request, Reply, ReplyReconfig, Ack)
)

// table holds the rules. The first rule that applies decides. The package comment contains the same
// table; TestDocumentedTable compares the two.
var table = rules{
	// Endpoints made by worker address: requests of this side.
	{peer, in(Idle), on(Loopback), HasLanes, 0, Open, ConnectLanes | Start, 0},
	{peer, in(Idle), on(Loopback), 0, 0, Open, 0, 0},
	{peer, in(Idle), on(Repeat), 0, repeated, same, 0, countRepeat},
	{peer, in(Idle), on(Need), repeated, 0, Requested, SendRequest | SendAgain, 0},
	{peer, in(Idle), on(Need), 0, 0, Requested, SendRequest, 0},
	{peer, in(Requested, Crossed), on(Repeat), 0, exhausted, same, SendRequest, countRepeat},
	{peer, in(Requested, Crossed), on(TimedOut), HasLanes, 0, same, RetryLanes | SendRequest, clearRepeats},
	{peer, in(Requested), on(DutyFailed), 0, 0, Idle, 0, 0},
	{peer, in(Crossed), on(Lost), LargerUUID, 0, Failed, SendRemoved, 0},

	// Requests of the other side.
	{peer, in(Idle), on(Opened), HasLanes, 0, Replied, ConnectLanes | SendReply, 0},
	{peer, in(Idle), on(Opened), 0, 0, Open, SendReply, 0},
	{peer, anyStage, on(Request), Dead, 0, same, SendRemoved, 0},
	{peer, in(Requested, Crossed), on(Request), LargerUUID, 0, Crossed, 0, 0},
	{peer, in(Requested), on(Request), HasLanes | SameUUID, 0, Both, ConnectLanes | SendReply, 0},
	{peer, in(Requested, Crossed), on(Request), 0, HasLanes, Crossed, SendReply, 0},
	{peer, notFailed, on(Request), HasLanes, 0, Replied, ReplaceLanes | ConnectLanes | SendReply, clearRounds},
	{peer, notFailed, on(Request), 0, 0, Open, SendReply, 0},

	// Replies and acknowledgements.
	{peer, in(Requested, Crossed), on(Reply, ReplyReconfig), HasLanes, 0, Open, ConnectLanes | SendAck | Start, 0},
	{peer, in(Both), on(Reply), HasLanes, 0, Open, Start, 0},
	{peer, in(Both), on(ReplyReconfig), HasLanes, 0, Open, SendAck | Start, 0},
	{peer, in(Requested, Crossed), on(Reply), 0, 0, Open, 0, 0},
	{peer, in(Requested, Crossed), on(ReplyReconfig), 0, 0, Open, SendAck, 0},
	{peer, in(Both, Replied), on(Ack), HasLanes, 0, Open, Start, 0},
	{peer, in(Replied), on(Lost), 0, 0, Failed, SendRemoved, 0},
	{peer, in(Both, Replied), on(AuxLost), 0, 0, same, IgnoreLoss | CheckLanes, clearRounds},
	{peer, in(Both, Replied), on(Tick), 0, overdue, same, SkipCheck, countRound},
	{peer, in(Both, Replied), on(Tick), CanAsk, 0, same, AskPeer | SkipCheck, 0},
	{peer, in(Replied), on(Tick), AuxClosed, 0, Failed, SendRemoved | FailUnacknowledged, 0},

	// Connections by socket address: the client.
	{client, in(Starting), on(Data), allDevices, 0, Joined, ConnectLanes | Notify, 0},
	{client, in(Starting), on(Data), 0, 0, Open, ConnectLanes | Notify | Start, 0},
	{client, in(Joined), on(PreRequest), 0, 0, Requested, ReplaceLanes | SendRequest, 0},
	{client, in(Requested), on(Reply, ReplyReconfig), HasLanes, 0, Open, ConnectLanes | SendAck | Start, 0},
	{client, in(Open), on(PreRequest), 0, allDevices, Failed, Drop | FailDevices, 0},

	// Connections by socket address: the server.
	{server, in(Starting), on(Notified), allDevices, 0, Joined, SendPreRequest, 0},
	{server, in(Starting), on(Notified), 0, 0, Open, Start, 0},
	{server, in(Joined), on(Request), 0, 0, Replied, ReplaceLanes | ConnectLanes | SendReply, 0},
	{server, in(Replied), on(Ack), HasLanes, 0, Open, Start, 0},
	{server, in(Replied), on(AuxLost), 0, 0, same, IgnoreLoss, 0},
	{server, in(Starting, Replied), on(Tick), 0, 0, same, SkipCheck, 0},

	// Everything else.
	{anyone, notFailed, on(DutyFailed), 0, 0, Failed, 0, 0},
	{anyone, anyStage, messages, 0, 0, same, Drop, 0},
}
