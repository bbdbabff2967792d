//go:build linux

package tcp

import (
	"crypto/tls"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// connState is the state of a connection (uct_tcp_ep_conn_state_t).
type connState uint8

const (
	stateConnecting connState = iota // connect has begun
	stateWaitingAck                  // a request was sent, its answer has not arrived
	stateMagic                       // accepted, nothing has arrived
	stateAccepting                   // the magic number has arrived, the request has not
	stateConnected
	stateStale  // accepted, but unused; open until this side's own connection is established
	stateClosed // the socket is closed
)

// conn is one socket. It belongs to the worker's goroutine.
type conn struct {
	iface *iface
	ep    *endpoint // the endpoint that sends on it; nil: this connection only receives

	fd       int32
	state    connState
	rx       bool         // the peer may send
	toEP     bool         // connects two endpoints by key: no ACK, no FIN
	outgoing bool         // this process made the connection
	matched  bool         // counted in the iface's match table
	hot      bool         // in the service's hot list
	dirty    bool         // in the service's dirty list
	blocked  bool         // the kernel takes no output now; EPOLLOUT reports when it does again
	reading  bool         // parse is running
	finished bool         // the peer has announced that it will not send any more
	ended    bool         // after finished: the peer has closed its direction of the connection
	paused   bool         // the application wants nothing delivered for now
	resumed  bool         // the pause has ended, and the input of that time is not handled yet
	bulk     bool         // the last put was large
	spoke    bool         // messages were delivered since the last check (guestList.notice)
	quiet    uint16       // empty reads in a row, while hot
	watched  event.Events // what the event set watches; 0: not in the set

	peer sockaddr // the peer's listener, as claimed by the peer
	from origin

	owner     owner         // whether the connection's user listens at peer
	aside     bool          // in the match table's list of connections with unverified claims
	ownerAt   time.Duration // when owner was determined, by the clock of the worker
	numbers   *numbers      // endpoint numbers toward peer, while in the match table
	nextAside *conn         // next connection with an unverified claim and the same key
	sn        uint64        // connection sequence number

	in  *buffer // received bytes, not yet parsed; nil if there are none
	put putRecv // the put that is being received

	out       *buffer // output, not yet written; nil if there is none
	zc        zcopy   // memory of the caller, to be written after out
	accepted  uint64  // bytes of all operations so far
	written   uint64  // bytes the kernel took
	writes    opQueue // operations that complete when their bytes are written
	acks      opQueue // operations that wait for the peer's acknowledgement
	sentEpoch uint64  // round of the last send
	putSN     uint32  // number of the last put; puts count from 0
	putEnd    uint64  // position in the output stream after the last put
	ackSN     uint32  // number of the last put that the peer acknowledged
	probe     bool    // something was sent after the last put: a remote flush needs an empty put
	owed      owed    // control frames that are still to be queued
	owedSN    uint32  // number of the received put to be acknowledged
	alive     aliveMark

	tls layer // nil: the connection uses the socket directly

	prev, next *conn // in the iface's list of connections
	half       halfOpen
	guestEntry guestEntry
	slow       slowEntry
	src        uct.Source
}

// layer is the optional TLS layer between a connection and its socket. stream implements it.
type layer interface {
	// handle handles the events of the socket during the TLS handshake. It returns false after
	// the handshake: the connection then handles ev.
	handle(ev event.Events) bool

	// read makes one receive call, and handles what was received. done is the number of things
	// done; more says that there is probably more to read.
	read() (done int, more bool)

	// drain handles the input that was received earlier, and returns the number of things done.
	drain() int

	// send makes one call to write the beginning of the connection's output. It returns the
	// number of bytes written and the number offered.
	send(output []byte) (n, want int, errno unix.Errno)

	// flush writes the layer's own output and reports whether the connection's output may
	// follow.
	flush() bool

	// begun reports whether the layer has taken output that it has not written.
	begun() bool

	// state returns the result of the handshake, nil before its end.
	state() *tls.ConnectionState

	close()
}

// newConn adds a connection to the iface. fd is its non-blocking socket.
func (i *iface) newConn(fd int, state connState) *conn {
	c := &conn{
		iface: i,
		fd:    int32(fd),
		state: state,
		putSN: ^uint32(0),
		ackSN: ^uint32(0),
		// No round has this number, so the first send is the first of its round.
		sentEpoch: ^uint64(0),
	}
	c.src.Owner = c
	c.next = i.conns
	if c.next != nil {
		c.next.prev = c
	}
	i.conns = c
	return c
}

// readable reports whether the event set watches c for input.
func (c *conn) readable() bool { return c.watched&event.Read != 0 }

// watch sets the events that the event set reports for c.
func (c *conn) watch(ev event.Events) error {
	if ev == c.watched {
		return nil
	}
	set := c.iface.svc.w.Events()
	var err error
	switch {
	case c.watched == 0:
		err = set.Add(int(c.fd), ev, c)
	case ev == 0:
		err = set.Remove(int(c.fd))
	default:
		err = set.Modify(int(c.fd), ev)
	}
	c.watched = ev
	return err
}

// socketError returns and clears the pending error of the socket (SO_ERROR); nil if there is
// none.
func (c *conn) socketError() error {
	errno, err := unix.GetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

// dead reports whether the peer has closed the connection or the connection has failed. It consumes
// no input of the socket.
func (c *conn) dead() bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(c.fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
}

// resetOnClose makes close send a reset. An orderly close before the answer would tell the
// peer that its request was read (origin.go).
func resetOnClose(fd int) {
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// close releases the socket and all resources of the connection. It does not end pending
// completions: the caller completes them with the error that it knows. close is idempotent.
func (c *conn) close() {
	if c.state == stateClosed {
		return
	}
	i := c.iface
	i.unmatch(c)
	i.svc.endHalfOpen(c)
	c.watch(0)
	if c.peer == (sockaddr{}) {
		resetOnClose(int(c.fd))
	}
	unix.Close(int(c.fd))
	c.fd = -1
	c.state = stateClosed
	c.rx = false
	c.put.drop()
	c.put = putRecv{}
	if c.in != nil && !c.reading {
		c.releaseIn()
	}
	if c.out != nil {
		i.txPool.put(c.out)
		c.out = nil
	}
	c.zc.reset()
	i.svc.leave(c)
	i.svc.watch.forget(c)
	if c.tls != nil {
		c.tls.close()
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		i.conns = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	c.src.Gone()
}
