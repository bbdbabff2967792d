//go:build linux

package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// link is the TCP connection to the peer. The C tools close it after the exchange of addresses
// (pp_client_exch_dest and pp_server_exch_dest, rdma-core 15 to 64), and post the first send after
// that. Therefore an end that has received an RDMA message may write to the TCP connection: a C
// tool no longer reads from it. A tool of this package does read, and learns that its peer keeps
// the connection open until the peer finishes or dies.
type link struct {
	conn *net.TCPConn
	ours atomic.Bool   // the peer has sent the message stays: it is a tool of this package
	gone chan struct{} // closed when a peer that has sent the message stays closes the connection
	stop chan struct{} // closed by the method close
	over chan struct{} // closed when the goroutine of watch has ended
}

// stays is the TCP message that announces that an end keeps the connection open.
const stays = "here\x00"

// grace is how long this end continues after the peer has closed the connection, because messages
// may still be on their way. It is also how long a finished end waits for its peer, which may need
// a retransmission. Tests shorten it.
var grace = 5 * time.Second

var errGone = fmt.Errorf("the peer closed the connection: %w", ucs.ErrConnectionReset)

// meet connects to the peer: the TCP connection, then all queue pairs.
func (s *session) meet(ctx context.Context) (*link, error) {
	conn, err := dial(ctx, s.opts.server, s.opts.port)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	quit := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) // long ago
	defer quit()
	exchange := exchangeServer
	if s.opts.server != "" {
		exchange = exchangeClient
	}
	total := 1
	if s.tool.shared {
		total = maxQPs
	}
	if err := exchange(conn, s.local, total, s.connect); err != nil {
		conn.Close()
		return nil, interrupted(ctx, err)
	}
	return &link{conn: conn, gone: make(chan struct{}), stop: make(chan struct{}), over: make(chan struct{})}, nil
}

// dial connects to a server, or accepts a client if server is empty.
func dial(ctx context.Context, server string, port int) (*net.TCPConn, error) {
	addr := net.JoinHostPort(server, strconv.Itoa(port))
	if server != "" {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	quit := context.AfterFunc(ctx, func() { l.Close() })
	defer quit()
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// interrupted replaces an error by the cause of ctx, if ctx is done.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return fmt.Errorf("interrupted: %w", ucs.ErrCanceled)
}

// watch starts a goroutine that reads from the connection. If the peer has sent the message stays
// and then closes the connection, the goroutine calls cancel after grace.
func (k *link) watch(cancel context.CancelCauseFunc) {
	go func() {
		defer close(k.over)
		b := make([]byte, len(stays))
		if _, err := io.ReadFull(k.conn, b); err != nil || string(b) != stays {
			return // not one of these tools
		}
		k.ours.Store(true)
		io.Copy(io.Discard, k.conn)
		close(k.gone)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errGone)
		case <-k.stop:
		}
	}()
}

// stay sends the message stays, by which this end announces that it keeps the connection open. An
// error is ignored, because a C tool has closed the connection.
func (k *link) stay() { io.WriteString(k.conn, stays) }

// finish informs the peer that this end is finished, and waits until the peer is finished too, up
// to grace, because the peer may not have received the last acknowledgement. It does nothing if the
// peer is a C tool.
func (k *link) finish(ctx context.Context) {
	if !k.ours.Load() {
		return
	}
	k.conn.CloseWrite()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-k.gone:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// close closes the connection. It must be called after watch.
func (k *link) close() {
	close(k.stop)
	k.conn.Close()
	<-k.over
}
