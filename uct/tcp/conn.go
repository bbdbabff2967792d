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
	stateWaitingAck                  // a request was sent, its answer is not here
	stateMagic                       // accepted, nothing is known of the peer
	stateAccepting                   // the magic is here, the request is not
	stateConnected
	stateStale  // accepted, but lost to the own connection; kept open until that stands
	stateClosed // the socket is gone
)

// conn is one socket. It belongs to the worker's goroutine.
type conn struct {
	iface *iface
	ep    *endpoint // the user's side; nil: this connection only receives

	fd       int32
	state    connState
	rx       bool // the peer may send
	toEP     bool // connects two endpoints by key: no ACK, no FIN
	outgoing bool // we connected
	matched  bool // counted in the iface's match table
	hot      bool // in the service's hot list
	dirty    bool // in the service's dirty list
	blocked  bool // the kernel takes no output now; EPOLLOUT tells when it does
	reading  bool // parse is running
	finished bool // the peer has said that it will not send any more
	ended    bool // the peer has closed its direction after that
	paused   bool // the user wants nothing delivered for now
	resumed  bool // that is over, what has arrived waits to be handled
	bulk     bool // the last put was large
	spoke    bool // has delivered messages since somebody looked
	quiet    uint16
	watched  event.Events // what the event set watches; 0: not in the set

	peer sockaddr // the peer's listener, as the peer says
	from origin

	owner     owner         // whether the connection's user listens there
	aside     bool          // in the match table's list of those not to be believed
	ownerAt   time.Duration // when that was so, by the clock of the worker
	numbers   *numbers      // of that listener, while the connection is in the match table
	nextAside *conn
	sn        uint64 // connection sequence number

	in  *buffer // received, not yet parsed; nil while there is nothing
	put putRecv

	out       *buffer // accepted, not yet written; nil while there is nothing
	zc        zcopy   // memory of the caller behind out
	accepted  uint64  // bytes of all operations so far
	written   uint64  // bytes the kernel took
	writes    opQueue // waiting for written to pass them
	acks      opQueue // waiting for the peer's acknowledgement
	sentEpoch uint64  // round of the last send
	putSN     uint32  // of the last put; they count from 0
	putEnd    uint64  // position in the stream after it
	ackSN     uint32  // last acknowledged by the peer
	probe     bool    // something was sent that no put has followed
	owed      owed    // control frames that wait for room
	owedSN    uint32  // the put to be acknowledged
	alive     aliveMark

	tls layer // nil: the socket is spoken to directly

	prev, next *conn // all connections of the iface
	half       halfOpen
	visit      visit
	slow       slowness
	src        uct.Source
}

// layer is what a connection may have between itself and its socket (stream).
type layer interface {
	// handle takes the events of the socket until the layer is ready for use, and
	// reports whether it has.
	handle(ev event.Events) bool

	// read makes one call for input, and handles what has come.
	read() (done int, more bool)

	// drain handles the input that is there already.
	drain() int

	// send makes one call for the beginning of the connection's output. It returns the
	// bytes written and offered.
	send(output []byte) (n, want int, errno unix.Errno)

	// flush writes what the layer has to say for itself and reports whether output
	// may follow.
	flush() bool

	// begun reports whether the layer has taken output that is not written.
	begun() bool

	// state is what the handshake has led to, nil before.
	state() *tls.ConnectionState

	close()
}

// newConn adds a connection on a non-blocking socket.
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

// readable reports whether reading c makes sense.
func (c *conn) readable() bool { return c.watched&event.Read != 0 }

// watch sets what the event set reports for c.
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

// socketError takes the error the kernel keeps for the socket; nil when there is
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

// dead reports whether the peer has closed the connection, without taking
// anything from it.
func (c *conn) dead() bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(c.fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
}

// resetOnClose makes a socket end with a reset: a connection that is closed in good
// order before it was answered says that its request was read (claim.go).
func resetOnClose(fd int) {
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// close releases the socket and everything that hangs on it but the completions:
// those are ended by whoever knows the reason. It is idempotent.
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
