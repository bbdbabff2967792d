//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
)

// connect connects the two sides. On the server, the client's parameters replace those of the
// command line.
func connect(o *options, stdout io.Writer) (group, error) {
	switch {
	case o.params.Flags&perfoob.FlagLoopback != 0:
		return alone{}, nil
	case o.server != "":
		return connectClient(o)
	}
	return connectServer(o, stdout)
}

func connectClient(o *options) (group, error) {
	conn, err := net.Dial(o.network, net.JoinHostPort(o.server, strconv.Itoa(int(o.port))))
	if err != nil {
		return nil, err
	}
	c, err := perfoob.NewConn(conn.(*net.TCPConn))
	if err != nil {
		return nil, err
	}
	if err := c.SendParams(&o.params.Params, o.peer); err != nil {
		c.Close()
		return nil, err
	}
	return &pair{conn: c, idx: 1, rel: o.peer}, nil
}

func connectServer(o *options, stdout io.Writer) (group, error) {
	l, err := net.Listen(o.network, net.JoinHostPort("", strconv.Itoa(int(o.port))))
	if err != nil {
		return nil, err
	}
	return accept(o, l, stdout)
}

// accept waits for one client and closes the listener.
func accept(o *options, l net.Listener, stdout io.Writer) (group, error) {
	fmt.Fprintln(stdout, "Waiting for connection...")
	conn, err := l.Accept()
	l.Close()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stdout, "Accepted connection from %v\n", conn.RemoteAddr())
	c, err := perfoob.NewConn(conn.(*net.TCPConn))
	if err != nil {
		return nil, err
	}
	params, release, err := c.RecvParams()
	if err != nil {
		c.Close()
		return nil, err
	}
	// The server keeps the parameters that the client does not control: the device, as in C 1.22,
	// error handling on its side, and the parameters that only params has.
	if o.params.Device != perfoob.None {
		params.Device = o.params.Device
	}
	params.Flags |= o.params.Flags & perfoob.FlagErrHandling
	params.Flags &^= perfoob.FlagLoopback
	o.params.Params = params
	return &pair{conn: c, idx: 0, rel: release}, nil
}
