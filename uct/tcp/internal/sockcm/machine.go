//go:build linux

package sockcm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// state is what comes next on a connection.
type state uint8

const (
	awaitRequest state = iota // of the server: the client speaks
	requested                 // the application has to answer
	answering                 // the answer is being written
	awaitNotify               // the client speaks once more

	connecting  // of the client: nothing is said yet
	requesting  // the request is being written
	awaitAnswer // the server speaks
	answered    // the application has to notify it
	notifying   // that is being written

	established // all has been said
)

// breach is how a peer can break the protocol.
type breach string

const (
	errTurn   breach = "the peer speaks when it is not its turn"
	errLong   breach = "the peer's message is longer than what is accepted"
	errNotify breach = "the peer's notification has data"
	errStatus breach = "the peer's message has a status that means nothing"
)

// Error implements error.
func (b breach) Error() string { return string(b) }

// machine is what has been said on a connection: bytes that were read go in, bytes to be
// written come out. It trusts nothing. The zero value is that of a server, without a limit set.
type machine struct {
	state state
	limit int    // bytes of private data
	in    []byte // of the message that is coming
	out   []byte // of ours, still to be written
	heard bool   // anything has come
}

// receive takes bytes in and returns the message that they have made whole, if any. An
// error is the end. It keeps no more than has arrived, whatever a header claims.
func (m *machine) receive(b []byte) (msg message, whole bool, err error) {
	if len(b) == 0 {
		return msg, false, nil
	}
	m.heard = true
	if m.state != awaitRequest && m.state != awaitAnswer && m.state != awaitNotify {
		return msg, false, errTurn
	}
	m.in = append(m.in, b...)
	if len(m.in) < headerLen {
		return msg, false, nil
	}
	n, status := parseHeader(m.in)
	switch {
	case n > 0 && m.state == awaitNotify:
		return msg, false, errNotify
	case n > uint64(m.limit):
		return msg, false, fmt.Errorf("%w: %d bytes of private data, the limit is %d", errLong, n, m.limit)
	case status > 0 || status != ucs.OK && m.state == awaitRequest:
		return msg, false, fmt.Errorf("%w: %d", errStatus, int8(status))
	case len(m.in) > headerLen+int(n):
		return msg, false, errTurn
	case len(m.in) < headerLen+int(n):
		return msg, false, nil
	}
	msg = message{status: status, private: m.in[headerLen:len(m.in):len(m.in)]}
	m.in = nil
	m.state = m.state.next()
	return msg, true, nil
}

// next is what follows when a message is whole.
func (s state) next() state {
	switch s {
	case notifying, awaitNotify:
		return established
	}
	return s + 1
}

// request, answer and notify say what is to be said next; reject ends the connection,
// when it is written.
func (m *machine) request(private []byte) { m.say(requesting, ucs.OK, private) }
func (m *machine) answer(private []byte)  { m.say(answering, ucs.OK, private) }
func (m *machine) reject()                { m.say(answering, ucs.ErrRejected, nil) }
func (m *machine) notify()                { m.say(notifying, ucs.OK, nil) }

func (m *machine) say(s state, status ucs.Status, private []byte) {
	m.state = s
	m.out = appendMessage(make([]byte, 0, headerLen+len(private)), status, private)
}

// wrote is told how much of out was written.
func (m *machine) wrote(n int) {
	if m.out = m.out[n:]; len(m.out) == 0 {
		m.out = nil
		m.state = m.state.next()
	}
}

// lost is what the end of the connection means, if nothing tells more: before the server has
// said anything there was no connection.
func (m *machine) lost() ucs.Status {
	if m.state >= connecting && !m.heard {
		return ucs.ErrNotConnected
	}
	return ucs.ErrConnectionReset
}
