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
	client bool // this side is
	gid    bool // keys have GIDs
}

// connect finds the other side: it calls the host, or waits at the port if there
// is none. The end of ctx breaks the connection.
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

// exchange sends out, reads as many bytes and returns them. The client sends
// first.
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

// hello exchanges what does not depend on the test: versions, and sizes of which
// both sides take the greater.
func (p *peer) hello(cycle, line int) (int, int, error) {
	// The most that a peer may make us take.
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

// handShake exchanges keys; ctx_hand_shake. It is also how the sides wait for each
// other.
func (p *peer) handShake(own *keys) (keys, error) {
	in, err := p.exchange("addresses", own.append(nil, p.gid))
	if err != nil {
		return keys{}, err
	}
	return parseKeys(in, p.gid)
}

// reports exchanges results.
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

// grace is how long a side that the other one has left goes on: it may have
// finished, with the last acknowledgment still on its way to this one.
const grace = 2 * time.Second

// watch returns a context that ends when the other side has gone away, and a
// function that ends the watch. Meanwhile nobody else reads.
func (p *peer) watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		_, err := p.r.Peek(1) // what has come stays in the reader
		if err == nil || isTimeout(err) {
			return
		}
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-stop:
		case <-late.C:
			cancel(fmt.Errorf("the other side has gone: %w: %w", err, ucs.ErrConnectionReset))
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

// leave waits until the other side has finished too: as long as it may wait for
// acknowledgments the queue pair has to stay.
func (p *peer) leave() {
	const patience = 10 * time.Second
	p.conn.SetDeadline(time.Now().Add(patience))
	if c, ok := p.conn.(*net.TCPConn); ok && c.CloseWrite() == nil {
		io.Copy(io.Discard, io.LimitReader(p.r, 1<<10))
	}
}
