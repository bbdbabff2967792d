//go:build linux

package sockcm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// state is the protocol state of a connection, named by the next step.
type state uint8

const (
	awaitRequest state = iota // server: the client sends the request
	requested                 // server: the application has to answer
	answering                 // server: the answer is being written
	awaitNotify               // server: the client sends the notification

	connecting  // client: nothing is sent yet
	requesting  // client: the request is being written
	awaitAnswer // client: the server sends the answer
	answered    // client: the application has to notify the server
	notifying   // client: the notification is being written

	established // all messages are exchanged
)

// violation is a protocol violation by the peer.
type violation string

const (
	errTurn   violation = "the peer sent a message out of turn"
	errLong   violation = "the peer's message exceeds the limit"
	errNotify violation = "the peer's notification has data"
	errStatus violation = "the peer's message has an invalid status"
)

// Error implements error.
func (b violation) Error() string { return string(b) }

// machine is the protocol state of a connection. Its input is the bytes read from the socket,
// its output the bytes to write. The input is untrusted. The zero value is the initial state of
// a server, without a limit set.
type machine struct {
	state       state
	limit       int    // maximum bytes of private data
	in          []byte // received bytes of an incomplete message
	out         []byte // bytes still to be written
	receivedAny bool   // the peer has sent any byte
}

// receive processes received bytes and returns a message if they complete one. After an error the
// connection must end. receive allocates memory only for bytes that have arrived, whatever length
// the header claims.
func (m *machine) receive(b []byte) (msg message, whole bool, err error) {
	if len(b) == 0 {
		return msg, false, nil
	}
	m.receivedAny = true
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

// next returns the state that follows when a message is complete.
func (s state) next() state {
	switch s {
	case notifying, awaitNotify:
		return established
	}
	return s + 1
}

// request, answer, reject and notify queue the next message. After reject the caller must close
// the connection.
func (m *machine) request(private []byte) { m.queueMessage(requesting, ucs.OK, private) }
func (m *machine) answer(private []byte)  { m.queueMessage(answering, ucs.OK, private) }
func (m *machine) reject()                { m.queueMessage(answering, ucs.ErrRejected, nil) }
func (m *machine) notify()                { m.queueMessage(notifying, ucs.OK, nil) }

func (m *machine) queueMessage(s state, status ucs.Status, private []byte) {
	m.state = s
	m.out = appendMessage(make([]byte, 0, headerLen+len(private)), status, private)
}

// wrote removes the first n bytes of out, which were written.
func (m *machine) wrote(n int) {
	if m.out = m.out[n:]; len(m.out) == 0 {
		m.out = nil
		m.state = m.state.next()
	}
}

// lost returns the status of a connection that ended without a more specific cause:
// ucs.ErrNotConnected at a client that has received nothing from the server, otherwise
// ucs.ErrConnectionReset.
func (m *machine) lost() ucs.Status {
	if m.state >= connecting && !m.receivedAny {
		return ucs.ErrNotConnected
	}
	return ucs.ErrConnectionReset
}
