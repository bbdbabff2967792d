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

// link is the TCP connection to the peer. The C tools close theirs when addresses
// are exchanged (pp_client_exch_dest and pp_server_exch_dest, rdma-core 15 to 64), and
// post the first send after that. Hence who has received a message may write to the
// connection: a C tool no longer reads it, one of these tools does, and knows then
// that the other end stays until it is finished, or dies.
type link struct {
	conn *net.TCPConn
	ours atomic.Bool   // the peer has said that it stays
	gone chan struct{} // closed when a peer that stays no more is gone
	stop chan struct{} // closed by close
	over chan struct{} // closed when nobody watches
}

// stays is what is written.
const stays = "here\x00"

// grace is for what is still on its way when the peer is gone, and for a peer that
// may want something sent again when this end is finished. Tests have less patience.
var grace = 5 * time.Second

var errGone = fmt.Errorf("the peer is gone: %w", ucs.ErrConnectionReset)

// meet connects to the peer, over TCP and then all queue pairs.
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

// dial connects to a server, or waits as one for a client.
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

// interrupted is the reason of an error, if it is that ctx is done.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return fmt.Errorf("interrupted: %w", ucs.ErrCanceled)
}

// watch calls cancel some time after a peer that stays is gone.
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

// stay tells the peer that this end stays, see link. The peer need not be there.
func (k *link) stay() { io.WriteString(k.conn, stays) }

// finish tells the peer that this end is finished, and waits until it is too: it
// may not have seen the last acknowledgment.
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

// close ends the connection. watch has been called.
func (k *link) close() {
	close(k.stop)
	k.conn.Close()
	<-k.over
}
