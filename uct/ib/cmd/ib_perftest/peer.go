//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// peer is the TCP connection to the other side.
type peer struct {
	conn   net.Conn
	r      *bufio.Reader
	client bool // this side is the client
	gid    bool // the addresses that the sides exchange contain GIDs
}

// connect connects to the server at host. If host is empty, it waits for a client at the TCP port.
// It fails when ctx ends.
func connect(ctx context.Context, host string, port int) (*peer, error) {
	var conn net.Conn
	var err error
	if host != "" {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	} else {
		conn, err = accept(ctx, port)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	return newPeer(conn, host != ""), nil
}

func newPeer(conn net.Conn, client bool) *peer {
	return &peer{conn: conn, r: bufio.NewReader(conn), client: client}
}

func accept(ctx context.Context, port int) (net.Conn, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	return l.Accept()
}

// exchange sends out, reads a message of the same length and returns it. The client sends first.
func (p *peer) exchange(what string, out []byte) ([]byte, error) {
	in := make([]byte, len(out))
	write := func() error {
		_, err := p.conn.Write(out) // in one piece: C reads it by one call
		return err
	}
	read := func() error {
		_, err := io.ReadFull(p.r, in)
		return err
	}
	first, second := read, write
	if p.client {
		first, second = write, read
	}
	err := first()
	if err == nil {
		err = second()
	}
	if err != nil {
		return nil, fmt.Errorf("exchange of %s: %w: %w", what, err, ucs.ErrConnectionReset)
	}
	return in, nil
}

// hello exchanges the values that do not depend on the test: the protocol version, the page size
// and the cache line size. It returns the page size and the cache line size that both sides use:
// the larger one of each.
func (p *peer) hello(cycle, line int) (int, int, error) {
	// The largest sizes that are accepted from a peer.
	const maxPage, maxLine = 1 << 20, 1 << 12
	in, err := p.exchange("versions", appendVersion(nil, version))
	if err == nil {
		_, err = parseVersion(in)
	}
	for _, n := range []struct {
		what string
		own  *int
		most int
	}{{"page size", &cycle, maxPage}, {"cache line", &line, maxLine}} {
		if err != nil {
			return 0, 0, err
		}
		var theirs int
		if in, err = p.exchange(n.what, appendNumber(nil, *n.own)); err == nil {
			theirs, err = parseNumber(n.what, in, n.most)
			*n.own = max(*n.own, theirs)
		}
	}
	return cycle, line, err
}

// handShake exchanges the addresses of the queue pairs; ctx_hand_shake. Further calls repeat the
// exchange only to synchronize the two sides.
func (p *peer) handShake(own *keys) (keys, error) {
	in, err := p.exchange("addresses", own.append(nil, p.gid))
	if err != nil {
		return keys{}, err
	}
	return parseKeys(in, p.gid)
}

// reports sends the results of this side and returns those of the other side.
func (p *peer) reports(own *report) (theirs report, err error) {
	for i := range reportFields {
		in, err := p.exchange("results", own.field(i))
		if err != nil {
			return report{}, err
		}
		theirs.setField(i, in)
	}
	return theirs, nil
}

// grace is how long this side continues after the other side has closed the connection: the other
// side may have finished, with the last acknowledgement still on its way.
const grace = 2 * time.Second

// watch returns a context that ends when the other side has closed the connection, and a function
// that ends the watch. No other goroutine may read from the connection during the watch.
func (p *peer) watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		_, err := p.r.Peek(1) // the data stays in the reader
		if err == nil || isTimeout(err) {
			return
		}
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-stop:
		case <-late.C:
			cancel(fmt.Errorf("lost the connection to the peer: %w: %w", err, ucs.ErrConnectionReset))
		}
	}()
	return ctx, func() {
		p.conn.SetReadDeadline(time.Unix(1, 0))
		close(stop)
		<-stopped
		p.conn.SetReadDeadline(time.Time{})
		cancel(nil)
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// leave waits until the other side has finished too, up to 10 seconds. The queue pair must exist as
// long as the other side may wait for acknowledgements.
func (p *peer) leave() {
	const closeTimeout = 10 * time.Second
	p.conn.SetDeadline(time.Now().Add(closeTimeout))
	if c, ok := p.conn.(*net.TCPConn); ok && c.CloseWrite() == nil {
		io.Copy(io.Discard, io.LimitReader(p.r, 1<<10))
	}
}
