package connect

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucs"
)

// Role says how an endpoint was made, and with it which messages it sends.
type Role uint8

// Roles of an endpoint.
const (
	Peer   Role = iota // made by worker address, or for the request of such an endpoint
	Client             // made by the socket address of a server
	Server             // accepted for a client
	numRoles
)

// Stage is the stage of the handshake of an endpoint.
type Stage uint8

// Stages of a handshake. A peer begins in Idle, a client and a server in Starting.
const (
	Idle      Stage = iota // nothing was sent
	Starting               // a client waits for the server's data, a server for the notification
	Joined                 // the first lanes are connected; a client waits for PRE_REQUEST, a server for REQUEST
	Requested              // REQUEST was sent; REPLY is awaited
	Crossed                // like Requested, and REQUEST of the other side was handled without a change of lanes
	Both                   // REQUEST and REPLY were sent; the first of REPLY and ACK is awaited
	Replied                // REPLY was sent; ACK is awaited
	Open                   // the two sides have agreed
	Failed                 // the two sides cannot agree
	numStages
)

// End is the state of the handshake of one endpoint. The zero value is an endpoint made by worker
// address that has sent nothing.
type End struct {
	Role       Role
	Stage      Stage
	AllDevices bool  // both sides use all devices: messages follow the connection manager's data
	Repeats    uint8 // how many times the request was repeated; in stage Idle 1 if it is to be sent twice
	Rounds     uint8 // keepalive rounds since REPLY was sent
}

// Event is something that happens to an endpoint.
type Event uint8

// Events of a handshake.
const (
	// Events of this side.
	Need       Event = iota // lanes, or an operation, need the other side's endpoint
	Loopback                // the endpoint is connected with itself
	Repeat                  // the other side may never reply to the request of this endpoint
	DutyFailed              // a duty of the last event could not be carried out
	TimedOut                // the lane that carried the request has timed out
	AuxLost                 // the auxiliary lane has failed
	Lost                    // the endpoint has failed, or is closed by force
	Tick                    // a round of the keepalive

	// Events of the connection manager.
	Data     // a client has received the server's data
	Notified // a server has received the client's notification

	// Messages of the other side.
	Opened        // REQUEST for which this endpoint was made
	PreRequest    // PRE_REQUEST
	Request       // REQUEST
	Reply         // REPLY
	ReplyReconfig // REPLY of a side that has chosen lanes again, and wants ACK
	Ack           // ACK
	numEvents
)

// Facts is a set of conditions that hold when an event happens.
type Facts uint16

// Conditions that package ucp states with an event.
const (
	HasLanes   Facts = 1 << iota // the two sides agree on lanes of the endpoint
	LargerUUID                   // the uuid of the other side's worker is larger than that of this one
	SameUUID                     // both endpoints belong to one worker
	AuxClosed                    // the auxiliary lane is closed, and wireup messages need a pairwise lane
	Dead                         // the endpoint has failed before
	CanAsk                       // the other side can be asked, over a lane that is not pairwise, whether its endpoint exists

	// Conditions that follow from the state of the handshake.
	allDevices // End.AllDevices
	repeated   // End.Repeats is not 0
	exhausted  // End.Repeats has reached maxRepeats
	overdue    // End.Rounds has reached maxRounds
)

// Duty is a set of actions that package ucp must carry out after an event.
type Duty uint32

// Actions after an event, in the order in which they are carried out.
const (
	Drop               Duty = 1 << iota // count the message as dropped
	ReplaceLanes                        // choose the lanes again, toward the address in the message
	RetryLanes                          // choose the lanes again, to other devices of the address
	ConnectLanes                        // connect the lanes with the transport endpoints that the message names
	Notify                              // notify the server through the connection manager
	SendPreRequest                      // send PRE_REQUEST
	SendRequest                         // send REQUEST
	SendAgain                           // send REQUEST once more
	SendReply                           // send REPLY
	SendAck                             // send ACK
	SendRemoved                         // send EP_REMOVED: the other side waits for an endpoint that cannot answer
	Start                               // close the auxiliary lane and start the operations that wait for lanes
	IgnoreLoss                          // the loss of the auxiliary lane is no failure of the endpoint
	CheckLanes                          // check whether the connected lanes still have a peer
	AskPeer                             // ask the other side whether its endpoint still exists
	SkipCheck                           // the keepalive does not check the pairwise lanes in this round
	FailDevices                         // fail the endpoint with the error that Duty.Err returns
	FailUnacknowledged                  // the same, for another reason
)

// effect is a change of a counter of End.
type effect uint8

const (
	_            effect = iota
	countRepeat         // Repeats is increased by 1
	clearRepeats        // Repeats is set to 0
	countRound          // Rounds is increased by 1
	clearRounds         // Rounds is set to 0
)

// maxRepeats is how many times a request is repeated at most.
const maxRepeats = 2

// maxRounds is how many rounds of the keepalive the acknowledgement of a reply may take.
const maxRounds = 3

// Next returns the state of an endpoint after an event, and the duties. An event without a rule
// changes nothing.
func (e End) Next(ev Event, f Facts) (End, Duty) { return table.next(e, ev, f) }

// next applies the first rule that matches the state of the endpoint, the event and the facts.
func (t rules) next(e End, ev Event, f Facts) (End, Duty) {
	f |= e.facts()
	for i := range t {
		r := &t[i]
		if r.roles&(1<<e.Role) == 0 || r.from&(1<<e.Stage) == 0 || r.on&(1<<ev) == 0 || f&r.need != r.need || f&r.not != 0 {
			continue
		}
		platform.Applied("connect", i)
		if r.to != same {
			e.Stage = r.to
		}
		switch r.count {
		case countRepeat:
			e.Repeats++
		case clearRepeats:
			e.Repeats = 0
		case countRound:
			e.Rounds++
		case clearRounds:
			e.Rounds = 0
		}
		return e, r.do
	}
	return e, 0
}

// facts returns the conditions that follow from the state.
func (e End) facts() (f Facts) {
	if e.AllDevices {
		f |= allDevices
	}
	if e.Repeats > 0 {
		f |= repeated
	}
	if e.Repeats >= maxRepeats {
		f |= exhausted
	}
	if e.Rounds >= maxRounds {
		f |= overdue
	}
	return f
}

// Unanswered reports whether a request of the endpoint was sent and REPLY may still come.
func (e End) Unanswered() bool {
	return e.Stage == Requested || e.Stage == Crossed || e.Stage == Both
}

// Unacknowledged reports whether REPLY was sent and nothing says yet that the other side has received it.
func (e End) Unacknowledged() bool { return e.Stage == Both || e.Stage == Replied }

// Err returns the error that the endpoint fails with, nil if the duties do not include a failure.
func (d Duty) Err() error {
	switch {
	case d&FailDevices != 0:
		return errDevices
	case d&FailUnacknowledged != 0:
		return errUnacknowledged
	}
	return nil
}

var (
	errDevices = fmt.Errorf("the server uses all devices and this end only one: UCX_CM_USE_ALL_DEVICES must be the same at both ends: %w",
		ucs.ErrUnsupported)
	errUnacknowledged = fmt.Errorf("the peer has not acknowledged the reply, and the connection that carried it is closed: %w",
		ucs.ErrEndpointTimeout)
)
